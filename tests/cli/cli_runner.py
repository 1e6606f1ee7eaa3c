"""Runs the real command line: in this process for speed, in one of its own where that matters."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cachekeeper.cli.main import run

COMMAND = (sys.executable, "-m", "cachekeeper")
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code, its answer, its talk."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        """Return the one JSON object on stdout."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def error(self) -> str:
        """Return the sentence of the error; the hint must stand below it."""
        lines = self.err.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1, self.err
        assert "Traceback" not in self.err
        return errors[0].removeprefix("error: ")

    @property
    def hint(self) -> str:
        """Return the hint of the error."""
        hints = [line for line in self.err.splitlines() if line.startswith("hint: ")]
        assert len(hints) == 1, self.err
        return hints[0].removeprefix("hint: ")


class Runner:
    """Calls the command line in this process; `ok` and `json` also judge the exit code."""

    def __init__(self, capture) -> None:
        self._capture = capture

    def __call__(self, *arguments: str | bytes) -> Outcome:
        self._capture.readouterr()
        code = run([os.fsdecode(argument) for argument in arguments])
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        out, err = self._capture.readouterr()
        return Outcome(code, out, err)

    def ok(self, *arguments: str | bytes) -> Outcome:
        """Run a command that must do what was asked."""
        found = self(*arguments)
        assert found.code == 0, (arguments, found)
        return found

    def json(self, *arguments: str | bytes, code: int = 0) -> dict[str, Any]:
        """Run a command with --json and return its object."""
        found = self(*arguments, "--json")
        assert found.code == code, (arguments, found)
        return found.data


def in_process(
    *arguments: str | bytes, environment: Mapping[str, str] | None = None, **options: Any
) -> Outcome:
    """Run the command in a process of its own; `environment` None is this one's."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        env=environment,
        capture_output=True,
        check=False,
        timeout=TIMEOUT_S,
        **options,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
