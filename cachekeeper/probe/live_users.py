"""Live users of a cache: who has its files open or mapped, and which vLLM serves from its root.

Everything comes from /proc. What cannot be read there (another user's process) is counted and said,
never taken for absence. A process in a container is compared through /proc/<pid>/root, by device
and inode, because its paths are its own.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_MAPPED = re.compile(rb"^(?:\S+\s+){5}(/.*)$", re.MULTILINE)
_VLLM = re.compile(rb"(?:^|[/\0 ])vllm(?:$|[\0 .:])|^VLLM::|vllm[._]entrypoints", re.IGNORECASE)
_LIMIT_BYTES = 16 << 20
_GENERATIONS = 8

RootRule = Callable[[Mapping[str, str]], bytes | None]


@dataclass(frozen=True, slots=True)
class LiveUser:
    """One process: its id, its title, and what it does with the cache."""

    pid: int
    title: str
    why: str


@dataclass(frozen=True, slots=True)
class LiveUsers:
    """The users found, and how many processes could not be looked into."""

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
    users: list[LiveUser] = []
    unreadable: list[int] = []
    for pid in _process_ids(search.processes):
        if pid == os.getpid():
            continue
        home = _home(search, pid)
        title = _title(home)
        try:
            why = _uses_files(home, search.families) or _serves_root(home, title, search)
        except PermissionError:
            unreadable.append(pid)
            continue
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        if why:
            users.append(LiveUser(pid, title.decode("utf-8", "backslashreplace")[:80], why))
    return LiveUsers(tuple(users), tuple(unreadable))


def _home(search: Search, pid: int) -> bytes:
    return os.path.join(search.processes, str(pid).encode("ascii"))


def _process_ids(processes: bytes) -> Iterator[int]:
    for name in os.listdir(processes):
        if name.isdigit():
            yield int(name)


def _title(home: bytes) -> bytes:
    """Return a process's command line with spaces; kernel threads and the dead have none."""
    try:
        return _read(os.path.join(home, b"cmdline")).replace(b"\0", b" ").strip()
    except OSError:
        return b""


def _uses_files(home: bytes, families: tuple[bytes, ...]) -> str:
    """Return what a process holds of some families: an open descriptor or a mapped file."""
    descriptors = os.path.join(home, b"fd")
    for name in os.listdir(descriptors):
        try:
            target = os.readlink(os.path.join(descriptors, name))
        except FileNotFoundError:
            continue
        if _is_inside(target, families):
            return f"has {_shown(target)} open"
    for match in _MAPPED.finditer(_read(os.path.join(home, b"maps"))):
        if _is_inside(match[1], families):
            return f"has {_shown(match[1])} mapped"
    return ""


def _serves_root(home: bytes, title: bytes, search: Search) -> str:
    """Return that a vLLM process's effective cache root is this one.

    vLLM's workers rename themselves over their own environment, so an unusable one is asked of the
    parent that started them.
    """
    if not _VLLM.search(title):
        return ""
    place = home
    for _generation in range(_GENERATIONS):
        environment = _environment(place)
        found = search.root_rule(environment) if environment else None
        if found is not None:
            inside = os.path.join(home, b"root") + found
            is_here = _same_place(inside, found, search.root)
            return f"is a vLLM that serves from {_shown(found)}" if is_here else ""
        parent = _parent(place)
        if parent <= 1:
            break
        place = _home(search, parent)
    return ""


def _environment(home: bytes) -> Mapping[str, str]:
    """Return a process's environment, empty where a title was written over it."""
    pairs = [item.partition(b"=") for item in _read(os.path.join(home, b"environ")).split(b"\0")]
    found = {os.fsdecode(name): os.fsdecode(value) for name, mark, value in pairs if mark}
    return found if "PATH" in found or "HOME" in found or "VLLM_CACHE_ROOT" in found else {}


def _parent(home: bytes) -> int:
    match = re.search(rb"^PPid:\s*(\d+)", _read(os.path.join(home, b"status")), re.MULTILINE)
    return int(match[1]) if match else 0


def _same_place(seen_by_it: bytes, named: bytes, root: bytes) -> bool:
    """Tell whether a root as a process sees it is this root; links and mounts are followed."""
    try:
        here, there = os.stat(root), os.stat(seen_by_it)
    except OSError:
        return os.path.realpath(named) == os.path.realpath(root)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _is_inside(path: bytes, tops: tuple[bytes, ...]) -> bool:
    return any(path == top or path.startswith(top + b"/") for top in tops)


def _read(path: bytes) -> bytes:
    with open(path, "rb") as file:
        return file.read(_LIMIT_BYTES)


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
