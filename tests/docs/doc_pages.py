"""The project's pages, as the tests of the documentation read them."""

import re
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
REFERENCE = DOCS / "reference"


def pages() -> list[Path]:
    """Return every page a reader may open."""
    return [PROJECT / "README.md", PROJECT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def read(name: str) -> str:
    """Return the text of a page by its path in the project."""
    return (PROJECT / name).read_text(encoding="utf-8")


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of all lines outside fenced blocks and tables."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith("|"):
            yield number, line


def links(text: str) -> list[str]:
    """Return the targets of all links outside fenced blocks."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", outside))


def anchors(text: str) -> set[str]:
    """Return the anchors that the headings of a page make."""
    titles = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def table_rows(text: str) -> list[list[str]]:
    """Return the cells of every table row, without code marks."""
    rows = [line for line in text.splitlines() if re.match(r"\|(?!-+\|)", line)]
    return [[cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
