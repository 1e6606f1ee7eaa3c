"""Every command's text, JSON, help and errors against golden files."""

import os

import builders
import pytest
from golden import GOLDEN, UPDATE, assert_golden, normalised, told

from cachekeeper.cli.main import COMMANDS

FIRST, SECOND = builders.unit_of("first"), builders.unit_of("second", 1, mega=True)
KEYS = (FIRST.aot, FIRST.partner, SECOND.aot, SECOND.partner)
PIN = ("pin", FIRST.aot[:8], "--name", "fast", "--reason", "92 tok/s")


def edit(place) -> None:
    """Overwrite the unit as an edit of the source does."""
    place.overwrite()


def rebuild(place) -> None:
    """Let vLLM compile anew under the same hash, with a new 10-hex family."""
    builders.rebuild(place.root, place.first, "v2", place.clock)


def warm(place) -> None:
    """Let vLLM load the artifact once."""
    builders.warm_load(place.root, place.first, 0.5, place.clock)


def tear(place) -> None:
    """Cut a model in the middle."""
    os.truncate(place.model(1), 20)


def vanish(place) -> None:
    """Remove the whole root."""
    builders.remove_tree(place.root)


def odd(place) -> None:
    """Put something into the root that no vLLM is known to write."""
    builders.write(place.root + b"/torch_compile_cache/notes.txt", b"mine", place.clock.tick())


def rot(place) -> None:
    """Change a stored byte."""
    model = place.tree()[FIRST.aot_path + b"/rank_0_0/model"].content
    name = builders.digest(model).encode()
    path = os.path.join(place.store, b"objects", name[:2], name[2:])
    os.chmod(path, 0o600)
    builders.write(path, model[:-1] + b"!", 1)


# Each scene is one file: commands to show, lists of commands to run unseen, and what happens.
SCENES = {
    "scan": (("scan",), odd, [PIN], ("scan",), edit, tear, ("ls",), vanish, ("scan", "--json")),
    "snapshot": (
        ("snapshot", "--dry-run"),
        ("snapshot", "-m", "before the upgrade"),
        ("snapshot",),
        ("snapshot", "--json"),
        tear,
        ("snapshot", "--require-ranks", "2"),
    ),
    "pin": (
        ("pin", FIRST.partner, "--dry-run"),
        PIN,
        ("pin", SECOND.aot[:4], "--status", "candidate"),
        ("pin", FIRST.aot[:8], "--json", "--name", "again", "--status", "reference"),
        PIN,
        ("pin", FIRST.aot[:8], "--name", "faster"),
        ("pin", "xyz"),
        tear,
        ("pin", FIRST.aot[:8], "--name", "torn", "--status", "candidate"),
    ),
    "pins": (
        ("pins",),
        [PIN, ("pin", SECOND.aot, "--name", "draft", "--status", "candidate")],
        edit,
        ("pins",),
        ("pins", "--json"),
    ),
    "unpin": ([PIN], ("unpin", "fast"), ("unpin", "fast", "--dry-run"), ("unpin", "fats", "--yes"),
              ("unpin", "fast", "--yes", "--json"), ("unpin", "fast", "--yes")),
    "mark": (
        [PIN],
        ("mark", "fast", "suspect", "--reason", "83 tok/s today", "--dry-run"),
        ("mark", "fast", "suspect", "--reason", "83 tok/s today"),
        ("mark", "fast", "floor", "--reason", "it was the driver", "--json"),
        ("mark", "fast", "good", "--reason", "r"),
    ),
    "verify": (
        ("verify",),
        [PIN],
        ("verify",),
        warm,
        ("verify",),
        rebuild,
        ("verify",),
        ("verify", "--json"),
        tear,
        ("verify", "fast"),
        vanish,
        ("verify",),
    ),
    "check": ([PIN], ("check",), rot, ("check",), ("check", "--json")),
    "restore": (
        [PIN],
        ("restore",),
        edit,
        ("restore", "--dry-run"),
        ("restore",),
        edit,
        ("restore", "fast", "--json"),
        vanish,
        ("restore",),
        edit,
        rot,
        ("restore",),
    ),
    "diff": (
        [PIN],
        ("diff", "fast", f"live:{FIRST.aot[:8]}"),
        warm,
        ("diff", "fast", f"live:{FIRST.aot[:8]}"),
        rebuild,
        ("diff", "fast", f"live:{FIRST.aot[:8]}"),
        ("diff", "fast", f"live:{FIRST.aot[:8]}", "--json"),
        ("diff", f"live:{FIRST.aot[:8]}", f"live:{SECOND.aot[:8]}"),
    ),
    "log": (
        ("log",),
        [
            PIN,
            ("mark", "fast", "suspect", "--reason", "83 tok/s today"),
            ("mark", "fast", "floor", "--reason", "it was the driver"),
            ("snapshot", "-m", "nightly"),
        ],
        edit,
        [("restore",), ("pin", SECOND.aot, "--name", "draft", "--status", "candidate"),
         ("unpin", "draft", "--yes")],
        ("log",),
        ("log", "fast"),
        ("log", "fast", "--json"),
    ),
    "show": (
        [PIN, ("mark", "fast", "promoted", "--reason", "won", "--evidence", "https://x.org/1")],
        ("show", "fast"),
        ("show", "fast", "--json"),
        ("show", f"live:{SECOND.aot[:8]}"),
        [("snapshot", "-m", "nightly")],
        ("show", SECOND.aot[:8]),
        ("show", "fats"),
        ("show", "fast", "--json", "--store", "/nowhere"),
    ),
    "rebuild": ([PIN], ("rebuild",), ("rebuild", "--json")),
}  # fmt: skip


@pytest.mark.parametrize("name", SCENES)
def test_scenes(ck, place, name, monkeypatch):
    """What a command prints is what was reviewed, on stdout and stderr, with its exit code."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = []
    for step in SCENES[name]:
        if callable(step):
            step(place)
            shown.append(f"# {step.__doc__}\n")
        elif isinstance(step, list):
            for arguments in step:
                ck.ok(*arguments)
        else:
            shown.append(told(step, ck(*step)))
    text = normalised("\n".join(shown), os.fsdecode(place.top), KEYS)
    assert_golden(name, text)


def test_help(ck, monkeypatch):
    """The help of the whole and of each command is what was reviewed."""
    monkeypatch.setenv("COLUMNS", "80")
    commands = [("--help",), *((name, "--help") for name in COMMANDS)]
    assert_golden("help", "\n".join(told(each, ck(*each)) for each in commands))


def test_errors(ck, place):
    """Errors of any command: one sentence, one hint, the exit code."""
    commands = [
        ("frobnicate",),
        ("scan", "--bogus"),
        ("scan", "--root", "/nowhere"),
        ("scan", "--root", ""),
        ("pin",),
        ("show", "b:zz"),
        ("show", "r:nightly"),
        ("restore", "live:abcd"),
        ("restore", "--root", os.fsdecode(place.store)),
        ("snapshot", "--lock-timeout", "soon"),
        ("snapshot", "--json", "--store", "/dev/null/store"),
    ]
    text = "\n".join(told(each, ck(*each)) for each in commands)
    assert_golden("errors", normalised(text, os.fsdecode(place.top), KEYS))


@pytest.mark.skipif(bool(os.environ.get(UPDATE)), reason="they are being written")
def test_no_golden_file_is_left_over():
    """Every file belongs to a scene."""
    assert {path.stem for path in GOLDEN.iterdir()} == {*SCENES, "help", "errors"}
