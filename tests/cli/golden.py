"""Golden files: what commands print, with paths, times and digests normalised.

`UPDATE_GOLDEN=1 pytest tests/cli/test_cli_golden.py` writes them anew; review them as text.
"""

import os
import re
from pathlib import Path

from cli_runner import Outcome

GOLDEN = Path(__file__).parent / "golden"
UPDATE = "UPDATE_GOLDEN"

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?Z")
_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{12,64}(?![0-9a-f])")
_PROCESS = re.compile(r"process \d+ \(.*?\)")


def normalised(text: str, top: str, keys: tuple[str, ...]) -> str:
    """Return text without what differs from run to run; widths stay, graph hashes too."""

    def digits(match: re.Match[str]) -> str:
        found = match[0]
        return found if any(key.startswith(found) for key in keys) else "#" * len(found)

    text = _TIME.sub(lambda match: re.sub(r"\d", "0", match[0]), text)
    text = text.replace(top, "/" + "T" * (len(top) - 1))
    return _HEX.sub(digits, _PROCESS.sub("process 1 (server)", text))


def told(arguments: tuple[str, ...], found: Outcome) -> str:
    """Return a command with all it left, as a golden file shows it."""
    parts = [f"$ cachekeeper {' '.join(arguments)}".rstrip() + "\n", found.out]
    if found.err:
        parts.append("--- stderr\n" + found.err)
    return "".join(parts) + f"--- exit {found.code}\n"


def assert_golden(name: str, text: str) -> None:
    """Compare with the golden file of a name, or write it where the environment says so."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get(UPDATE):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8").splitlines() == text.splitlines()
