"""The tools that cachekeeper is measured against, each as its users would call it."""

import importlib.util
import os
import shutil
import sys

from contest import SAVES, Contestant, Task
from workplace import Command, Workplace

_HERE = os.path.dirname(os.path.abspath(__file__))


class Copy(Contestant):
    """`cp -a` to an empty place and back."""

    name = "cp"
    programs = ("cp",)
    tasks = (Task.FIRST, Task.RESTORE)

    def command(self, task: Task) -> Command:
        source, target = self.root, self.repository
        if task is Task.RESTORE:
            source, target = target, self.place
        return Command(("cp", "-a", "-T", source, target))


class Rsync(Contestant):
    """`rsync -a` to a mirror and back; `rsync -ac --delete` over what stands there."""

    name = "rsync"
    programs = ("rsync",)
    tasks = (*SAVES, Task.RESTORE, Task.OVER)

    def command(self, task: Task) -> Command:
        mirror = f"{self.repository}/"
        if task is Task.OVER:
            return Command(("rsync", "-ac", "--delete", mirror, f"{self.place}/"))
        if task is Task.RESTORE:
            return Command(("rsync", "-a", mirror, f"{self.place}/"))
        return Command(("rsync", "-a", f"{self.root}/", mirror))


class Tar(Contestant):
    """A tar archive through `zstd -3` with two threads."""

    name = "tar+zstd"
    programs = ("tar", "zstd")
    tasks = (Task.FIRST, Task.RESTORE)

    def ready(self, task: Task) -> None:
        super().ready(task)
        os.makedirs(self.repository, exist_ok=True)

    def command(self, task: Task) -> Command:
        archive = os.path.join(self.repository, "root.tar.zst")
        if task is Task.RESTORE:
            return Command(("tar", "-I", "zstd -q -T2", "-xf", archive, "-C", self.place))
        return Command(("tar", "-I", "zstd -q -3 -T2", "-cf", archive, "-C", self.root, "."))


class Restic(Contestant):
    """restic: encrypted, chunked and de-duplicated, with its cache beside the repository."""

    name = "restic"
    programs = ("restic",)
    tasks = (*SAVES, Task.RESTORE)

    def ready(self, task: Task) -> None:
        super().ready(task)
        if task is Task.FIRST:
            self.workplace.run(self._restic("init"))

    def command(self, task: Task) -> Command:
        if task is Task.RESTORE:
            return self._restic("restore", "latest", "--target", self.place)
        return self._restic("backup", ".")

    def _restic(self, *arguments: str) -> Command:
        return Command(("restic", "-q", "-r", self.repository, *arguments), self.root)


class Borg(Contestant):
    """borg without encryption: chunked, de-duplicated, lz4."""

    name = "borg"
    programs = ("borg",)
    tasks = (*SAVES, Task.RESTORE)

    def ready(self, task: Task) -> None:
        super().ready(task)
        if task is Task.FIRST:
            self.workplace.run(Command(("borg", "init", "-e", "none", self.repository)))

    def command(self, task: Task) -> Command:
        archive = f"{self.repository}::{task.name}"
        if task is Task.RESTORE:
            newest = f"{self.repository}::{Task.CHANGED.name}"
            return Command(("borg", "extract", newest), self.place)
        return Command(("borg", "create", archive, "."), self.root)


class RawBlake3(Contestant):
    """One process that reads every file and hashes it with one thread."""

    name = "blake3"
    tasks = (Task.VERIFY,)

    def command(self, task: Task) -> Command:
        del task  # it knows one
        return Command((sys.executable, os.path.join(_HERE, "raw_blake3.py"), self.root))


PEERS: tuple[type[Contestant], ...] = (Copy, Rsync, Tar, Restic, Borg, RawBlake3)


def missing(peer: type[Contestant]) -> str | None:
    """Say what a peer lacks on this machine."""
    for program in peer.programs:
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if peer is RawBlake3 and importlib.util.find_spec("blake3") is None:
        return "the Python package blake3 is not installed"
    return None


def make_peers(workplace: Workplace, root: str, names: set[str] | None) -> list[Contestant]:
    """Make the peers that are there and asked for."""
    return [
        peer(workplace, root)
        for peer in PEERS
        if (names is None or peer.name in names) and missing(peer) is None
    ]
