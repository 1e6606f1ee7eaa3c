"""Terminal sessions in pages: run again, compared, and written anew.

    python tests/docs/doc_sessions.py README.md docs/tutorial.md

A session is every ```console block of a page, in order; a line that begins with `$ ` is run,
the lines below it are what it must print. Times and ids are not compared, and a line `…`
stands for any number of lines. As a command it replaces in the page what is no longer printed.
"""

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

from doc_pages import PROJECT
from doc_scenes import SCENES, Stage, make_stage

from cachekeeper.cli.main import run

_SCENE = re.compile(r"<!-- scene: ([a-z-]+) -->")
_ANY = "…"
# A process that may not be looked into is a matter of the machine, not of the session.
_OF_THE_MACHINE = re.compile(r"note: \d+ running (?:program|process)\w* could not be looked into")
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "<time>"),
    (re.compile(r"\b([bs]):[0-9a-f]{8,64}"), r"\1:<id>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"-{3,}"), "---"),
    (re.compile(r" {2,}"), "  "),
)


@dataclass(frozen=True)
class Step:
    """One command: what happens before it, what it must print, and where that stands in a page."""

    scene: str | None
    command: str
    output: tuple[str, ...]
    first_line: int


def steps_of(text: str) -> Iterator[Step]:
    """Yield the steps of a page's session."""
    lines = text.splitlines()
    scene: str | None = None
    inside = False
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if found := _SCENE.fullmatch(line):
            scene = found[1]
        elif line.startswith("```"):
            inside = line == "```console"
        elif inside and line.startswith("$ "):
            end = number
            while not lines[end].startswith(("$ ", "```")):
                end += 1
            yield Step(scene, line[2:], tuple(lines[number:end]), number)
            scene, number = None, end


def play(steps: list[Step], stage: Stage) -> Iterator[tuple[Step, list[str]]]:
    """Run the steps in order; yield each with the lines it printed, with the paths pages show."""
    last = 0
    for step in steps:
        if step.scene is not None:
            SCENES[step.scene](stage)
        command = step.command
        for real, shown in stage.shown_paths.items():
            command = command.replace(shown, real) if shown != "~" else command
        words = shlex.split(command)
        call = _run_here if words[0] == "cachekeeper" else _run_in_bash
        last, output = call(command, stage, last)
        for real, shown in stage.shown_paths.items():
            output = output.replace(real, shown)
        lines = [line.rstrip() for line in output.splitlines()]
        yield step, [line for line in lines if not _OF_THE_MACHINE.fullmatch(line)]


def _run_here(command: str, stage: Stage, _last: int) -> tuple[int, str]:
    """Run one of our commands in this process: a new interpreter costs a second each time."""
    printed = io.StringIO()
    with (
        mock.patch.dict(os.environ, stage.environment(), clear=True),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        before = signal.getsignal(signal.SIGPIPE)
        code = run(shlex.split(command)[1:])
        signal.signal(signal.SIGPIPE, before)
    return code, printed.getvalue()


def _run_in_bash(command: str, stage: Stage, last: int) -> tuple[int, str]:
    """Run any other command, with `last` as the exit code of the one before."""
    done = subprocess.run(
        ["bash", "-c", f"(exit {last}); {command}"],
        env=stage.environment(), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout


def agrees(expected: tuple[str, ...], actual: list[str]) -> bool:
    """Tell whether a page shows what was printed, as far as it may be the same."""
    return _match([_masked(line) for line in expected], [_masked(line) for line in actual])


def _masked(line: str) -> str:
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line.rstrip()


def _match(expected: list[str], actual: list[str]) -> bool:
    if not expected:
        return not actual
    if expected[0] == _ANY:
        return any(_match(expected[1:], actual[skip:]) for skip in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and _match(expected[1:], actual[1:])


def rewrite(page: Path) -> int:
    """Run a page's session and put into the page what has changed; return the number of changes."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    changes = []
    with tempfile.TemporaryDirectory() as base, tempfile.TemporaryDirectory(prefix="ck.") as cache:
        # The cache's path is as long as the shown one, so that tables keep their widths.
        stage = make_stage(Path(base), Path(base), Path(cache))
        for step, actual in play(list(steps_of(text)), stage):
            if not agrees(step.output, actual):
                changes.append((step, actual))
    for step, actual in reversed(changes):
        lines[step.first_line : step.first_line + len(step.output)] = actual
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(changes)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {rewrite(PROJECT / name)} outputs changed")
