"""The terminal sessions in the pages print what they show, and the JSON keys are the documented."""

import json
import re
from collections.abc import Iterator

import pytest
from doc_pages import read, table_rows
from doc_scenes import make_stage
from doc_sessions import agrees, play, steps_of

from cachekeeper.cli.main import COMMANDS


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_a_session_prints_what_the_page_shows(name, tmp_path, tmp_path_factory):
    steps = list(steps_of(read(name)))
    assert steps
    for step, actual in play(steps, make_stage(tmp_path, tmp_path_factory.getbasetemp())):
        shown = "\n".join(actual)
        hint = f"python tests/docs/doc_sessions.py {name}"
        assert agrees(step.output, actual), f"$ {step.command}\n{shown}\n({hint} writes it anew)"


def test_a_session_that_shows_something_else_does_not_agree():
    assert agrees(("one", "…", "s:0123456789ab  at"), ["one", "two", "s:ba9876543210 at"]) is False
    assert agrees(("one", "…", "s:0123456789ab  at"), ["one", "two", "s:ba9876543210    at"])
    assert agrees(("…",), [])
    assert not agrees(("one",), ["one", "two"])
    assert not agrees((), ["one"])


@pytest.fixture(scope="module")
def printed_keys(tmp_path_factory) -> dict[str, set[str]]:
    """Run the commands on a cache with all sorts of trouble; give the JSON keys of each schema."""
    steps = list(steps_of(SCENARIO))
    stage = make_stage(tmp_path_factory.mktemp("keys"), tmp_path_factory.getbasetemp())
    found: dict[str, set[str]] = {}
    for step, lines in play(steps, stage):
        text = "\n".join(lines)
        for start in (match.start() for match in re.finditer(r"^\{", text, flags=re.MULTILINE)):
            whole, _end = json.JSONDecoder().raw_decode(text[start:])
            name = re.fullmatch(r"cachekeeper/([a-z-]+)/1", whole.pop("schema"))[1]
            found.setdefault(name, set()).update(_keys(whole))
        assert "this is a bug" not in text, step.command
    return found


SCENARIO = """
<!-- scene: llama -->
```console
$ cachekeeper scan --json
$ cachekeeper snapshot --json
$ cachekeeper pin d4aa --json
```
<!-- scene: warm-load -->
```console
$ cachekeeper verify --json
```
<!-- scene: overwritten -->
```console
$ cachekeeper verify --json
$ cachekeeper scan --json
$ cachekeeper pins --json
$ cachekeeper diff d4aa live:d4aa --json
$ touch "$VLLM_CACHE_ROOT"/torch_compile_cache/0c79dd93f4/added
$ rm "$VLLM_CACHE_ROOT"/torch_compile_cache/0c79dd93f4/rank_0_0/backbone/computation_graph.py
$ cachekeeper diff d4aa live:d4aa --json
$ cachekeeper mark d4aa suspect --reason why --evidence note --json
$ touch /data/vllm-cache/note
$ cachekeeper mark d4aa suspect --reason why --evidence /data/vllm-cache/note --json
$ cachekeeper show d4aa --json
$ cachekeeper restore d4aa --json
$ cachekeeper restore d4aa --json
$ cachekeeper log --json
$ cachekeeper rebuild --json
$ cachekeeper pin d4 --json
$ truncate -s 0 "$VLLM_CACHE_ROOT"/torch_compile_cache/torch_aot_compile/d4aa*/rank_0_0/model
$ cachekeeper scan --json
$ cachekeeper snapshot --json
$ cachekeeper verify --json
$ rm -r ~/.local/share/cachekeeper/objects/00
$ cachekeeper check --json
$ cachekeeper unpin d4aaeaf4 --yes --json
```
"""
# Only there while some other process uses the files.
NEEDS_A_LIVE_USER = {"users.pid", "users.title", "users.why"}


def _keys(value: object, prefix: str = "") -> Iterator[str]:
    """Yield every key path; what is in a list has the path of the list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield prefix + key
            yield from _keys(inner, f"{prefix}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner, prefix)


def _documented() -> dict[str, set[str]]:
    """Return the documented key paths of each section, shapes put in where a key has one."""
    sections = re.split(r"^#+ ", read("docs/reference/json.md"), flags=re.MULTILINE)
    rows = {part.split("\n", 1)[0]: table_rows(part) for part in sections}
    found = {}
    for name, table in rows.items():
        found[name] = set(_expand(table, rows))
    return found


def _expand(table: list[list[str]], rows: dict[str, list[list[str]]]) -> Iterator[str]:
    for keys, kind, _meaning in table:
        shape = re.search(r"\(#([a-z-]+)\)", kind)
        for raw in re.findall(r"[a-z_.]+(?:\[\])?", keys):
            if raw in ("key", "---") and kind in ("is", "---"):
                continue
            key = raw.removesuffix("[]")
            parts = key.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
            if shape:
                inner = _expand(rows[shape[1].replace("-", " ")], rows)
                yield from (f"{key}.{each}" for each in inner)


def test_every_json_key_is_documented(printed_keys):
    documented = _documented()
    extra = {name: keys - documented[name] for name, keys in printed_keys.items()}
    assert {name: keys for name, keys in extra.items() if keys} == {}


def test_every_documented_json_key_is_printed(printed_keys):
    documented = _documented()
    lacking = {
        name: documented[name] - keys - NEEDS_A_LIVE_USER for name, keys in printed_keys.items()
    }
    assert {name: keys for name, keys in lacking.items() if keys} == {}


def test_every_command_has_its_json_documented(printed_keys):
    assert set(COMMANDS) | {"error"} == set(printed_keys)
