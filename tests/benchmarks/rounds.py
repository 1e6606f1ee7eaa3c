"""The rounds: every task, every contestant in turn, as often as asked."""

import dataclasses
import os
import sys
from collections.abc import Sequence

from contest import QUESTIONS, ROUND, SAVES, Contestant, Task, change_model
from history import make_history
from keeper import Asked
from tree import Shape
from workplace import BenchmarkError, Command, CommandFailedError, Sample, Workplace

_HERE = os.path.dirname(os.path.abspath(__file__))
_PUTS_BACK = (Task.RESTORE, Task.OVER)


@dataclasses.dataclass(slots=True)
class Results:
    """Every sample, and what went wrong or was found."""

    samples: dict[Task, dict[str, list[Sample]]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    failed: bool = False

    def add(self, task: Task, name: str, sample: Sample) -> None:
        self.samples.setdefault(task, {}).setdefault(name, []).append(sample)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def fail(self, text: str) -> None:
        self.failed = True
        self.note(f"FAILED {text}")


class Rounds:
    """Does the tasks on one root and collects the results."""

    def __init__(self, workplace: Workplace, root: str, results: Results) -> None:
        self.workplace = workplace
        self.root = root
        self.results = results

    def all(self, contestants: Sequence[Contestant], rounds: int) -> None:
        """Do so many rounds; the first one also compares restored trees by content."""
        for number in range(rounds):
            talk(f"round {number + 1} of {rounds}")
            self._round(contestants, deep=number == 0)

    def _round(self, contestants: Sequence[Contestant], *, deep: bool) -> None:
        standing = self._digest(self.root, deep=deep)
        for task in ROUND:
            if task is Task.CHANGED:
                change_model(self.root)
                standing = self._digest(self.root, deep=deep)
            for contestant in contestants:
                if task not in contestant.tasks:
                    continue
                done = self.attempt(contestant, task)
                if done and task in SAVES:
                    contestant.kept = standing
                if task in _PUTS_BACK and (done or contestant.place == self.root):
                    self._compare(contestant, task, self._digest(contestant.place, deep=deep))
                contestant.tidy(task)
        for contestant in contestants:
            contestant.forget()

    def questions(self, asked: Asked, shape: Shape, snapshots: int, rounds: int) -> None:
        """Ask what should be answered at once, on a small root with many snapshots."""
        talk(f"a store of {snapshots} snapshots")
        make_tree(self.workplace, asked.root, shape)
        try:
            make_history(asked, snapshots)
        except CommandFailedError as error:
            self.results.fail(f"a store of {snapshots} snapshots: {error}")
            return
        for number in range(rounds):
            talk(f"questions, round {number + 1} of {rounds}")
            for task in QUESTIONS:
                self.attempt(asked, task)

    def attempt(self, contestant: Contestant, task: Task) -> bool:
        """Time one contestant at one task; a failure is noted and leaves its cell empty."""
        talk(f"  {task.value}: {contestant.name}")
        try:
            contestant.ready(task)
            command = contestant.command(task)
            outcome = self.workplace.measure(command, contestant.warm(task))
            contestant.done(task, outcome)
        except CommandFailedError as error:
            self.results.fail(f"{task.value}, {contestant.name}: {error}")
            return False
        if outcome.sample.exit_code:
            said = f"exit {outcome.sample.exit_code}: {outcome.stdout.strip()[:300]}"
            self.results.note(f"{task.value}, {contestant.name}: {said}")
        self.results.add(task, contestant.name, outcome.sample)
        return True

    def _compare(self, contestant: Contestant, task: Task, digest: str) -> None:
        """Hold what a contestant put back against what it was given."""
        if digest == contestant.kept or not contestant.kept:
            return  # who kept nothing has not touched the root either
        problem = f"{task.value}, {contestant.name}: the tree is not the one that was kept"
        if contestant.place == self.root:
            raise BenchmarkError(problem)  # nothing to go on with
        self.results.fail(problem)

    def _digest(self, root: str, *, deep: bool) -> str:
        options = ("--deep",) if deep else ()
        argv = (sys.executable, os.path.join(_HERE, "whole.py"), *options, root)
        return self.workplace.run(Command(argv)).stdout.strip()


def make_tree(workplace: Workplace, root: str, shape: Shape) -> str:
    """Make a root in a process of its own; give what it says of it."""
    argv = [sys.executable, os.path.join(_HERE, "tree.py"), root]
    for name, value in dataclasses.asdict(shape).items():
        argv += [f"--{name}", str(value)]
    return workplace.run(Command(tuple(argv))).stdout.strip()


def talk(text: str) -> None:
    """Say on stderr what goes on; stdout is for the table."""
    print(text, file=sys.stderr, flush=True)
