"""What is measured, and what somebody who takes part must be able to do."""

import abc
import enum
import glob
import os
import random
import shutil

from workplace import Command, Outcome, Workplace

_CHANGED_BYTES = 1000


class Task(enum.Enum):
    """The tasks of one round, in the order in which a round does them."""

    FIRST = "first snapshot"
    AGAIN = "snapshot, nothing changed, no pins"
    CHANGED = "snapshot, one model changed"
    RESTORE = "restore of everything"
    OVER = "restore over a tree with one file changed"
    VERIFY = "verify of a whole root"
    HELP = "cachekeeper --help"
    LS = "cachekeeper ls"
    LOG = "cachekeeper log"
    PINS = "cachekeeper pins"


SAVES = (Task.FIRST, Task.AGAIN, Task.CHANGED)
ROUND = (*SAVES, Task.RESTORE, Task.OVER, Task.VERIFY)
QUESTIONS = (Task.HELP, Task.LS, Task.LOG, Task.PINS)


class Contestant(abc.ABC):
    """A tool that keeps a copy of the root in a repository of its own and puts it back."""

    name: str
    programs: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()

    def __init__(self, workplace: Workplace, root: str) -> None:
        self.workplace = workplace
        self.root = root
        self.repository = workplace.at("repositories", self.name)
        self.place = workplace.at("restored", self.name)
        self.kept = ""  # the digest of the tree that it saved last

    def ready(self, task: Task) -> None:
        """Do what comes before the timing of a task."""
        if task is Task.RESTORE:
            shutil.rmtree(self.place, ignore_errors=True)
            os.makedirs(self.place)
        if task is Task.OVER:
            change_model(self.place)

    @abc.abstractmethod
    def command(self, task: Task) -> Command:
        """Give the command that does a task."""

    def warm(self, task: Task) -> tuple[str, ...]:
        """Name the trees that a task reads."""
        if task is Task.RESTORE:
            return (self.repository,)
        return (self.repository, self.place) if task is Task.OVER else (self.root,)

    def done(self, task: Task, outcome: Outcome) -> None:
        """Learn from what a task's command printed; most tools have nothing to tell."""
        del task, outcome

    def tidy(self, task: Task) -> None:
        """Give back the disk that no later task of this round needs."""
        if task is Task.OVER or (task is Task.RESTORE and Task.OVER not in self.tasks):
            shutil.rmtree(self.place, ignore_errors=True)

    def forget(self) -> None:
        """Remove the repository, so that the next round starts from nothing."""
        shutil.rmtree(self.repository, ignore_errors=True)


def model_of(root: str) -> str:
    """Find the first rank's model in a root."""
    pattern = os.path.join(
        glob.escape(root), "torch_compile_cache/torch_aot_compile/*/rank_0_0/model"
    )
    return min(glob.iglob(pattern))


def change_model(root: str) -> None:
    """Replace the first rank's model as vLLM does: a temporary file, then a rename."""
    path = model_of(root)
    with open(path, "rb") as file:
        data = bytearray(file.read())
    middle = len(data) // 2
    data[middle : middle + _CHANGED_BYTES] = random.randbytes(_CHANGED_BYTES)
    temporary = f"{path}.{os.getpid()}.tmp"
    with open(temporary, "wb") as file:
        file.write(data)
    shutil.copymode(path, temporary)
    os.replace(temporary, path)
