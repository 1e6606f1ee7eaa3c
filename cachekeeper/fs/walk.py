"""Walking a tree: every entry with its state, links not followed, nothing skipped silently."""

import os
import stat
from dataclasses import dataclass
from typing import Literal

FoundKind = Literal["file", "dir", "link", "special"]


@dataclass(frozen=True, slots=True)
class Found:
    """One entry below a tree: relative path, kind and lstat result."""

    path: bytes
    kind: FoundKind
    status: os.stat_result


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A directory that could not be listed, and why."""

    path: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class Tree:
    """Entries sorted by path bytes, the top (empty path) first, and what could not be read."""

    entries: tuple[Found, ...]
    unreadable: tuple[Unreadable, ...]


def walk_tree(top: bytes) -> Tree:
    """Return all entries of the tree at `top`, which may be one file; raises OSError for it."""
    status = os.lstat(top)
    entries = [Found(b"", kind_of(status.st_mode), status)]
    unreadable: list[Unreadable] = []
    waiting = [b""] if entries[0].kind == "dir" else []
    while waiting:
        _list(top, waiting.pop(), entries, unreadable, waiting)
    entries.sort(key=lambda found: found.path)
    return Tree(tuple(entries), tuple(unreadable))


def _list(
    top: bytes,
    relative: bytes,
    entries: list[Found],
    unreadable: list[Unreadable],
    waiting: list[bytes],
) -> None:
    """List one directory; an entry that vanishes meanwhile is simply no longer there."""
    try:
        with os.scandir(os.path.join(top, relative) if relative else top) as listing:
            for entry in listing:
                path = relative + b"/" + entry.name if relative else entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                kind = kind_of(status.st_mode)
                entries.append(Found(path, kind, status))
                if kind == "dir":
                    waiting.append(path)
    except FileNotFoundError:
        return
    except OSError as error:
        unreadable.append(Unreadable(relative, error.strerror or str(error)))


def kind_of(mode: int) -> FoundKind:
    """Return the kind of an entry by its mode; FIFOs, sockets and devices are `special`."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "special"
