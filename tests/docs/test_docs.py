"""The pages say everything that is there, and nothing that is not."""

import re
import subprocess
import sys

import pytest
from click import Context, Option
from doc_pages import DOCS, PROJECT, anchors, links, pages, prose_lines, read, table_rows

from cachekeeper.cli import errors as cli_errors
from cachekeeper.cli.main import ALIASES, COMMANDS, cli
from cachekeeper.core.drift import DRIFTS
from cachekeeper.core.errors import KeeperError
from cachekeeper.core.record import RECORD_KINDS
from cachekeeper.core.references import parse_reference
from cachekeeper.core.status import STATUSES
from cachekeeper.probe import origin

SOURCES = sorted((PROJECT / "cachekeeper").rglob("*.py"))
CODE = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
NAMES = [str(page.relative_to(PROJECT)) for page in pages()]

# No place of any one machine, no package registry, nothing of how the work is organised.
FOREIGN = re.compile(
    r"/wor[k]/|/tmp/|(?<![\w<>}])/root\b|/home/[a-z]|/mnt/|\bshared/|"
    r"pyp[i]\.org|pythonhoste[d]|download\.pytorc[h]\.org|index-url https?:|https?://[^\s)]*/simple\b|"
    r"\b(?:10|127|192\.168|172\.16)\.\d+\.\d+|localhost|"
    r"\b[Hh]elpers?\b|\bDESIGN\b|\bCLI\.md|\bSTYLE\.md|\b[Ii]ssue \d+|\b[Tt]he issue\b"
)
# Where tools keep their files on every machine.
COMMON_PLACES = ("/tmp/torchinductor_<user>",)
WIDER = ("docs/design/benchmarks.md", "docs/design/cache-layouts.md")


def _all_errors(base: type[KeeperError] = KeeperError) -> list[type[KeeperError]]:
    below = [each for child in base.__subclasses__() for each in _all_errors(child)]
    return [base, *below]


def _first_cells(name: str) -> set[str]:
    return {row[0] for row in table_rows(read(name)) if row}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    text = read("docs/reference/cli.md")
    section = text.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
    common = text.split("## Options of every command", 1)[1].split("\n## ", 1)[0]
    command = cli.get_command(Context(cli), name)
    assert command.help.split("\n")[0] in section
    for option in (each for each in command.params if isinstance(each, Option)):
        assert option.help, f"{option.name} has no help"
        assert all(word in section + common for word in option.opts)


def test_every_alias_is_documented():
    text = read("docs/reference/cli.md")
    assert all(f"Also: `{alias}`" in text for alias in ALIASES)


def test_the_generated_page_is_current():
    script = DOCS / "generate_reference.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_exit_code_is_documented():
    codes = {error.exit_code for error in _all_errors()}
    codes |= {0, 1, cli_errors.BUG, cli_errors.INTERRUPTED}
    assert {str(code) for code in codes} <= _first_cells("docs/reference/exit-codes.md")


def test_every_drift_is_documented():
    assert set(DRIFTS) <= _first_cells("docs/reference/exit-codes.md")


def test_every_environment_variable_is_documented():
    used = set(re.findall(r"""environ\w*(?:\.get\(|\[)["']([A-Z_]+)["']""", CODE))
    used |= set(re.findall(r"\bCACHEKEEPER_[A-Z_]+", CODE))
    assert "CACHEKEEPER_STORE" in used
    assert used == _first_cells("docs/reference/environment.md") - {"variable"}


def test_every_recorded_name_is_documented():
    text = read("docs/reference/environment.md")
    words = re.findall(r"[A-Z]+", origin._TELLING.pattern)
    assert len(words) > 20
    recorded = {word: {word, f"{word}_X"} for word in words}
    told = {
        f"{word}_" if f"{word}_X" in kept else word
        for word, names in recorded.items()
        if (kept := origin.caller_origin(dict.fromkeys(names, ""), "", 0, "")["environment"])
    }
    assert {name for name in told if f"`{name}`" not in text} == set()


def test_every_record_kind_is_documented():
    assert set(RECORD_KINDS) <= _first_cells("docs/design/store-format.md")


def test_every_status_is_documented():
    text = read("docs/design/glossary.md")
    assert [status for status in STATUSES if f"`{status}`" not in text] == []


def test_every_form_of_a_reference_is_documented():
    text = read("docs/reference/cli.md")
    for form in ("b:1a2b", "s:1a2b", "live:1a2b"):
        mark = form.partition(":")[0]
        assert parse_reference(form).kind != "name"
        assert f"`{mark}:" in text


def test_every_problem_code_is_documented():
    found = set(re.findall(r'Problem\(\s*"([a-z-]+)"', CODE))
    found |= set(re.findall(r'\("([a-z]+-model|trailing-bytes)", "', CODE))
    found |= set(re.findall(r'"code": "([a-z-]+)"', CODE))
    found |= set(re.findall(r'ScanWarning\(\s*"([a-z-]+)"', CODE))
    faults = re.findall(r'return "(missing|unreadable)"\n|else "(damaged)"\n', CODE)
    found |= {f"{''.join(fault)}-object" for fault in faults}
    assert {"missing-rank", "unfinished-restore", "damaged-object"} <= found
    assert found - _first_cells("docs/reference/problems.md") == set()


@pytest.mark.parametrize("name", NAMES)
def test_every_link_inside_the_project_leads_somewhere(name):
    page = PROJECT / name
    for target in links(read(name)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{name}: {target}"
        assert found.is_relative_to(PROJECT), f"{name}: {target}"
        if anchor:
            text = found.read_text(encoding="utf-8")
            assert anchor in anchors(text), f"{name}: {target}"


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("docs/")])
def test_every_page_can_be_reached_from_another(name):
    if name.startswith("docs/changelog.d/"):
        pytest.skip("fragments are gathered by the changelog")
    targets = {
        (PROJECT / other).parent.joinpath(target.partition("#")[0]).resolve()
        for other in NAMES
        if other != name
        for target in links(read(other))
        if not re.match(r"[a-z]+:", target)
    }
    assert (PROJECT / name).resolve() in targets


@pytest.mark.parametrize("name", NAMES)
def test_no_page_names_a_place_of_one_machine(name):
    text = read(name)
    for place in COMMON_PLACES:
        text = text.replace(place, "")
    assert [found[0] for found in FOREIGN.finditer(text)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WIDER])
def test_prose_fits_into_120_columns(name):
    assert [number for number, line in prose_lines(read(name)) if len(line) > 120] == []


def test_what_the_readme_tells_to_make_is_in_the_makefile():
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), flags=re.MULTILINE))
    told = set(re.findall(r"`make ([a-z-]+)`", "".join(read(name) for name in NAMES)))
    assert {"demo", "test", "check", "test-all"} <= told
    assert told <= targets


def test_folders_and_modules_that_pages_name_are_there():
    places = (PROJECT, PROJECT / "cachekeeper", PROJECT / "tests", DOCS)
    for name in ("README.md", "docs/design/architecture.md"):
        for path in re.findall(r"`((?:[a-z_]+/)+(?:[a-z_.-]+)?)`", read(name)):
            assert any((place / path).exists() for place in places), f"{name}: {path}"


def test_the_changelog_keeps_a_changelog():
    text = read("CHANGELOG.md")
    assert "## [Unreleased]" in text
    for fragment in (DOCS / "changelog.d").iterdir():
        assert re.fullmatch(r"\w+\.(added|changed|fixed|removed)\.md", fragment.name)
        assert fragment.read_text(encoding="utf-8").strip()
