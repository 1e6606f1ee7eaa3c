"""What every command takes, before and after its name."""

import json
import os

import pytest

from cachekeeper.cli.main import ALIASES, COMMANDS

# Arguments with which each command does something on a pinned root.
ARGUMENTS = {
    "scan": (),
    "ls": (),
    "show": ("fast",),
    "snapshot": (),
    "pin": ("FIRST", "--name", "again", "--status", "reference"),
    "unpin": ("fast",),
    "pins": (),
    "mark": ("fast", "suspect", "--reason", "slower today"),
    "verify": (),
    "check": (),
    "restore": (),
    "diff": ("fast", "live:FIRST"),
    "log": (),
    "rebuild": (),
}
CHANGING = ("snapshot", "pin", "unpin", "mark", "restore")
every_command = pytest.mark.parametrize("name", ARGUMENTS)


def arguments_of(name, place):
    """Return a command's arguments for a root."""
    return [each.replace("FIRST", place.first.aot) for each in ARGUMENTS[name]]


def test_the_table_names_every_command():
    """No command is left out of the tests below."""
    assert set(ARGUMENTS) == set(COMMANDS) | set(ALIASES)


@every_command
@pytest.mark.parametrize("where", ["before", "after"])
def test_options_may_stand_before_and_after_the_command(ck, pinned, name, where, monkeypatch):
    """--store, --root, --json, --quiet, --lock-timeout and --yes are taken on either side."""
    monkeypatch.delenv("VLLM_CACHE_ROOT")
    monkeypatch.delenv("CACHEKEEPER_STORE")
    common = ("--store", pinned.store, "--root", pinned.root, "--json", "--quiet", "--yes",
              "--lock-timeout", "5")  # fmt: skip
    words = (name, *arguments_of(name, pinned))
    found = ck(*common, *words) if where == "before" else ck(*words, *common)
    assert (found.code, found.err) == (0, "")
    assert found.data["schema"] == f"cachekeeper/{ALIASES.get(name, name)}/1"
    assert found.out.isascii()
    assert found.out.endswith("}\n")


@every_command
def test_text_is_no_json(ck, pinned, name):
    """Without --json the answer is text for people, on stdout."""
    found = ck(name, *arguments_of(name, pinned), "--yes")
    assert found.code == 0
    with pytest.raises(json.JSONDecodeError):
        json.loads(found.out)


@pytest.mark.parametrize("name", CHANGING)
def test_dry_run_changes_nothing(ck, pinned, name):
    """What changes something says what it would do, and does not."""
    pinned.overwrite()
    before = (pinned.tree(), ck.json("log"), ck.json("pins"))
    found = ck.ok(name, *arguments_of(name, pinned), "--dry-run")
    assert "dry run" in found.out or "would restore" in found.out
    assert ck.json(name, *arguments_of(name, pinned), "--dry-run")["dry_run"] is True
    assert before == (pinned.tree(), ck.json("log"), ck.json("pins"))


def test_an_option_after_the_command_wins(ck, place):
    """Given twice, the value nearer to the command's arguments counts."""
    found = ck("--root", place.top + b"/nowhere", "scan", "--root", place.root)
    assert found.code == 0


def test_roots_may_be_several(ck, place):
    """--root may be repeated, and each root is named in the answer."""
    other = place.top + b"/empty"
    assert ck("scan", "--root", place.root, "--root", other).code == 2
    os.mkdir(other)
    data = ck.json("scan", "--root", place.root, "--root", other, "--root", other)
    assert [root["path"].encode() for root in data["roots"]] == [place.root, other]


def test_quiet_silences_the_talk(ck, pinned):
    """--quiet leaves nothing on stderr but errors."""
    pinned.overwrite()
    assert ck.ok("restore", "--quiet").err == ""
    assert ck("show", "nobody", "--quiet").error


@pytest.mark.parametrize("option", ["-h", "--help"])
@every_command
def test_each_command_has_help(ck, name, option):
    """-h and --help explain a command on stdout, without any store or root."""
    found = ck.ok(name, option)
    assert found.out.startswith(f"Usage: cachekeeper {name}")
    assert "--lock-timeout SECONDS" in found.out


def test_the_help_lists_every_command(ck):
    """The help of the whole names each command with one line."""
    lines = ck.ok("--help").out.splitlines()
    for name, (_module, text) in COMMANDS.items():
        assert f"  {name:<8}  {text}" in lines


def test_without_a_command_the_help_is_talk(ck):
    """A bare `cachekeeper` shows its help on stderr, and is wrong usage."""
    found = ck()
    assert (found.code, found.out) == (2, "")
    assert "Commands:" in found.err
    assert (found.error, found.hint) == (
        "no command was given",
        "cachekeeper --help lists the commands",
    )
    assert ck("--json").data["error"]["exit_code"] == 2


def test_the_version_is_told(ck):
    """--version names the program and its version."""
    assert ck.ok("--version").out.startswith("cachekeeper, version 0.")
