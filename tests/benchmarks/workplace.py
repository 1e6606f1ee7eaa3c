"""Runs and times commands inside one work directory, far from the caller's home.

Each command is a child of its own, waited for by `wait4`, so that its peak memory is its own
(a child's figure is never below this process's: nothing large is kept here). Before a timing the
named trees are read into the page cache and dirty pages are written out.
"""

import contextlib
import dataclasses
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator

_MARK = ".cachekeeper-benchmarks"
_READ_BYTES = 1 << 20
_SAID = 600  # characters of a complaint that are passed on
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")


class BenchmarkError(Exception):
    """The benchmark cannot go on."""


class CommandFailedError(BenchmarkError):
    """A command ended with an exit code that it must not have."""


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """What to start, where, and which exit codes mean that it did its work."""

    argv: tuple[str, ...]
    cwd: str | None = None
    accepted: tuple[int, ...] = (0,)


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One timing: until the command ended, and until its bytes were on disk too."""

    seconds: float
    synced_seconds: float
    peak_rss_bytes: int
    exit_code: int


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A sample and what the command printed."""

    sample: Sample
    stdout: str
    stderr: str


class Workplace:
    """One directory that holds everything, emptied before and removed afterwards."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.environment = _environment(self.path)

    def at(self, *parts: str) -> str:
        return os.path.join(self.path, *parts)

    def remove(self) -> None:
        if os.path.lexists(self.path):
            shutil.rmtree(self.path)

    def run(self, command: Command) -> Outcome:
        """Run a command to its end; raise when its exit code is not an accepted one."""
        output, errors = self.at("tmp", "stdout"), self.at("tmp", "stderr")
        with open(output, "wb") as stdout, open(errors, "wb") as stderr:
            started = time.perf_counter()
            child = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
            )
            _, status, usage = os.wait4(child.pid, 0)
            seconds = time.perf_counter() - started
            child.returncode = os.waitstatus_to_exitcode(status)
        sample = Sample(seconds, seconds, usage.ru_maxrss * 1024, child.returncode)
        outcome = Outcome(sample, _text(output), _text(errors))
        if child.returncode not in command.accepted:
            raise CommandFailedError(_complaint(command, outcome))
        return outcome

    def measure(self, command: Command, warm: Iterable[str]) -> Outcome:
        """Run a command from a warm page cache with nothing left to write."""
        for path in warm:
            read_through(path)
        os.sync()
        outcome = self.run(command)
        started = time.perf_counter()
        subprocess.run(("sync", "-f", self.path), check=True)
        synced = outcome.sample.seconds + time.perf_counter() - started
        return dataclasses.replace(
            outcome, sample=dataclasses.replace(outcome.sample, synced_seconds=synced)
        )


@contextlib.contextmanager
def prepared(path: str) -> Iterator[Workplace]:
    """Give an empty work directory, removed afterwards; refuse one with anyone else's files."""
    workplace = Workplace(path)
    here = workplace.path
    if os.path.isdir(here) and os.listdir(here) and not os.path.exists(workplace.at(_MARK)):
        raise BenchmarkError(f"{here} is not empty and not a work directory of ours")
    workplace.remove()
    try:
        for name in ("home", "tmp", "repositories", "restored"):
            os.makedirs(workplace.at(name))
        with open(workplace.at(_MARK), "wb"):
            pass
        yield workplace
    finally:
        workplace.remove()


def read_through(path: str) -> None:
    """Read every file below a path, so that it is in the page cache."""
    buffer = bytearray(_READ_BYTES)
    for directory, _, names in os.walk(path):
        for name in names:
            where = os.path.join(directory, name)
            if not os.path.isfile(where):
                continue
            with open(where, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass


def _environment(work: str) -> dict[str, str]:
    """Keep search paths of the caller's environment and nothing else."""
    home = os.path.join(work, "home")
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return kept | {
        "HOME": home,
        "LANG": "C.UTF-8",
        "TMPDIR": os.path.join(work, "tmp"),
        "XDG_CACHE_HOME": os.path.join(home, "cache"),
        "XDG_CONFIG_HOME": os.path.join(home, "config"),
        "XDG_DATA_HOME": os.path.join(home, "data"),
        "XDG_STATE_HOME": os.path.join(home, "state"),
        "RESTIC_CACHE_DIR": os.path.join(home, "restic"),
        "RESTIC_PASSWORD": "benchmark",
        "BORG_BASE_DIR": os.path.join(home, "borg"),
        "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes",
        "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
    }


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _complaint(command: Command, outcome: Outcome) -> str:
    said = "; ".join((outcome.stderr or outcome.stdout).strip().splitlines()) or "nothing said"
    return f"{' '.join(command.argv)}: exit {outcome.sample.exit_code}: {said[-_SAID:]}"
