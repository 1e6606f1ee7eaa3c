"""cachekeeper as a contestant, through its command line alone (see docs/reference)."""

import json
import os
import shutil
import sys
from collections.abc import Mapping

from contest import QUESTIONS, SAVES, Contestant, Task, change_model, model_of
from workplace import BenchmarkError, Command, CommandFailedError, Outcome, Workplace

_REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_FINDINGS = 1  # "done, and something was found": the work was done, the note is printed


class Keeper(Contestant):
    """One store and one root; what a restore puts back stands in the root itself."""

    name = "cachekeeper"
    tasks: tuple[Task, ...] = (*SAVES, Task.RESTORE, Task.OVER, Task.VERIFY)

    def __init__(self, workplace: Workplace, root: str) -> None:
        super().__init__(workplace, root)
        self.place = root
        self.snapshot = ""

    def keeper_command(self, *arguments: str) -> Command:
        """Give a command on this store and root, with its answer as JSON."""
        where = ("--store", self.repository, "--root", self.root, "--json")
        argv = (sys.executable, "-m", "cachekeeper", *arguments, *where)
        return Command(argv, _REPOSITORY, (0, _FINDINGS))

    def ready(self, task: Task) -> None:
        if task in (Task.RESTORE, Task.OVER) and not self.snapshot:
            raise CommandFailedError("no snapshot was taken, there is nothing to restore")
        if task is Task.RESTORE:
            remove_families(self.root)
        if task is Task.OVER:
            change_model(self.root)
        if task is Task.VERIFY:
            # Only what is pinned has digests to be held against: pin the unit, all of the root.
            self.workplace.run(self.keeper_command("pin", aot_key(self.root)))

    def command(self, task: Task) -> Command:
        if task is Task.VERIFY:
            return self.keeper_command("verify")
        if task in (Task.RESTORE, Task.OVER):
            return self.keeper_command("restore", self.snapshot)
        return self.keeper_command("snapshot")

    def done(self, task: Task, outcome: Outcome) -> None:
        answer = answer_of(outcome)
        if task in SAVES:
            self.snapshot = snapshot_reference(answer)

    def tidy(self, task: Task) -> None:
        """Keep the root: it is the place."""


class Asked(Keeper):
    """The questions that should be answered at once, on a store with a long history."""

    tasks = QUESTIONS

    def command(self, task: Task) -> Command:
        if task is Task.HELP:
            return Command((sys.executable, "-m", "cachekeeper", "--help"), _REPOSITORY)
        return self.keeper_command(task.name.lower())

    def done(self, task: Task, outcome: Outcome) -> None:
        """The answers are not used."""


def answer_of(outcome: Outcome) -> Mapping[str, object]:
    """Read a command's JSON answer."""
    try:
        answer = json.loads(outcome.stdout)
    except ValueError as error:
        raise BenchmarkError(f"the answer is not JSON: {outcome.stdout[:200]!r}") from error
    if not isinstance(answer, dict):
        raise BenchmarkError(f"the answer is not one JSON object: {outcome.stdout[:200]!r}")
    return answer


def snapshot_reference(answer: Mapping[str, object]) -> str:
    """Give the reference of the snapshot that an answer tells of."""
    identity = str(answer["id"])
    return identity if identity.startswith("s:") else f"s:{identity}"


def aot_key(root: str) -> str:
    """Give the 64-digit hash of the root's AOT family."""
    return os.path.basename(os.path.dirname(os.path.dirname(model_of(root))))


def remove_families(root: str) -> None:
    """Delete every family, AOT and compile, and leave the directories that hold them."""
    compile_root = os.path.join(root, "torch_compile_cache")
    for parent in (os.path.join(compile_root, "torch_aot_compile"), compile_root):
        for name in os.listdir(parent):
            if name != "torch_aot_compile":
                shutil.rmtree(os.path.join(parent, name))


def why_not(workplace: Workplace) -> str | None:
    """Say why cachekeeper cannot be run here."""
    argv = (sys.executable, "-m", "cachekeeper", "--help")
    try:
        workplace.run(Command(argv, _REPOSITORY))
    except CommandFailedError as error:
        return str(error)
    return None
