"""Live users of a cache: who has its files open or mapped, and which vLLM serves from its root.

Everything comes from /proc. What cannot be read there (another user's process) is counted and said,
never taken for absence. A process in a container is compared through /proc/<pid>/root, by device
and inode, because its paths are its own.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cachekeeper.core.paths import shown
from cachekeeper.probe.processes import Processes
from cachekeeper.probe.serving import is_vllm, served_environment

RootRule = Callable[[Mapping[str, str]], bytes | None]


@dataclass(frozen=True, slots=True)
class LiveUser:
    """One process: its id, its title, and what it does with the cache."""

    pid: int
    title: str
    why: str


@dataclass(frozen=True, slots=True)
class LiveUsers:
    """The users found, and the processes that could not be looked into."""

    users: tuple[LiveUser, ...]
    unreadable: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """What is looked for: the root, families in it (absolute paths), and vLLM's rule for a root."""

    root: bytes
    families: tuple[bytes, ...]
    root_rule: RootRule
    processes: bytes = b"/proc"


def find_live_users(search: Search) -> LiveUsers:
    """Return who uses these families or serves from this root; this process does not count."""
    processes = Processes(search.processes)
    users: list[LiveUser] = []
    unreadable: list[int] = []
    for pid in processes.ids():
        if pid == os.getpid():
            continue
        arguments = processes.arguments(pid)
        try:
            why = _use(processes, pid, arguments, search)
        except PermissionError:
            unreadable.append(pid)
            continue
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if why:
            users.append(LiveUser(pid, shown(b" ".join(arguments).strip())[:80], why))
    return LiveUsers(tuple(users), tuple(unreadable))


def _use(processes: Processes, pid: int, arguments: list[bytes], search: Search) -> str:
    """Return what a process does with the cache, nothing where it has nothing to do with it."""
    for path in _inside(processes.open_files(pid), search.families):
        return f"has {shown(path)} open"
    mapped = processes.mapped_files(pid)
    for path in _inside(mapped, search.families):
        return f"has {shown(path)} mapped"
    return _service(processes, pid, search) if is_vllm(arguments, mapped) else ""


def _service(processes: Processes, pid: int, search: Search) -> str:
    """Return that a vLLM serves from this root, or from one that cannot be told."""
    environment = served_environment(processes, pid)
    found = None if environment is None else search.root_rule(environment)
    if found is None:
        return "is a vLLM whose cache root cannot be told"
    is_here = _is_same_place(processes.path(pid, b"root") + found, found, search.root)
    return f"is a vLLM that serves from {shown(found)}" if is_here else ""


def _is_same_place(seen_by_it: bytes, named: bytes, root: bytes) -> bool:
    """Tell whether a root as a process sees it is this root; links and mounts are followed."""
    try:
        here, there = os.stat(root), os.stat(seen_by_it)
    except OSError:
        return os.path.realpath(named) == os.path.realpath(root)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _inside(paths: Iterable[bytes], tops: tuple[bytes, ...]) -> Iterable[bytes]:
    return (
        path for path in paths if any(path == top or path.startswith(top + b"/") for top in tops)
    )
