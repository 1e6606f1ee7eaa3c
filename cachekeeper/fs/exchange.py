"""Exchanging staged trees with live ones: each family is old or new, never mixed.

When an intent exists, everything it names is staged, verified and durable, and what it displaces is
in the store. Which side a family is on is told by inodes, so rolling forward, or back where the
file system refuses, may be repeated after a kill at any point.
"""

import itertools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from cachekeeper.core.errors import RefusedError
from cachekeeper.core.paths import shown
from cachekeeper.fs import primitives
from cachekeeper.fs.atomic import ensure_directory
from cachekeeper.fs.intent import Intent, IntentItem, working_directory

_ASIDE = b".old"


def roll_forward(root: bytes, intent: Intent) -> None:
    """Exchange every item that is not exchanged yet; raises RefusedError, OSError."""
    directory = working_directory(root, intent.restore)
    parents = set()
    for item in intent.items:
        target = os.path.join(root, item.target)
        parents.add(os.path.dirname(target))
        if _inode(target) != item.staged_inode:
            staged = os.path.join(directory, item.staged)
            with _movable(target, staged):
                _exchange_item(target, staged, item)
    for parent in sorted(parents):
        primitives.sync_directory(parent)
    primitives.sync_directory(directory)


def roll_back(root: bytes, intent: Intent) -> None:
    """Put every exchanged item back where it was; raises OSError, and may then be finished instead.

    For an exchange that the file system refuses (a mount point inside a family): nothing is lost
    either way, but an intent that can never be finished would block the root.
    """
    directory = working_directory(root, intent.restore)
    for item in intent.items:
        target, staged = os.path.join(root, item.target), os.path.join(directory, item.staged)
        with _movable(target, staged):
            _put_back(target, staged, item, displaced_paths(root, intent, item))


def is_exchanged(root: bytes, item: IntentItem) -> bool:
    """Tell whether the staged tree of an item stands in its place."""
    return _inode(os.path.join(root, item.target)) == item.staged_inode


def displaced_paths(root: bytes, intent: Intent, item: IntentItem) -> tuple[bytes, ...]:
    """Return where what stood in an item's place lies now, the newest last.

    There is more than one, or another one than the intent knew, where someone built anew in that
    place between a kill and the recovery.
    """
    staged = os.path.join(working_directory(root, intent.restore), item.staged)
    found = [path for path in _asides(staged) if os.path.lexists(path)]
    if _inode(staged) not in (None, item.staged_inode):
        found.append(staged)
    return tuple(found)


def _exchange_item(target: bytes, staged: bytes, item: IntentItem) -> None:
    if _inode(staged) != item.staged_inode:
        raise RefusedError(
            f"{shown(target)} cannot be finished: the staged tree {shown(staged)} is gone",
            "restore again: what stood there is in the store (cachekeeper log)",
        )
    if not os.path.lexists(target):
        ensure_directory(os.path.dirname(target), 0o755)
        primitives.rename_new(staged, target)
        return
    if primitives.exchange(staged, target):
        return
    # No exchange on this file system: two renames, and the intent tells the missing half.
    primitives.rename_new(target, _asides(staged)[-1])
    primitives.rename_new(staged, target)


def _put_back(target: bytes, staged: bytes, item: IntentItem, olds: tuple[bytes, ...]) -> None:
    if _inode(target) == item.staged_inode:
        if olds and primitives.exchange(olds[-1], target):
            return
        primitives.rename_new(target, staged)
    if olds and not os.path.lexists(target):
        primitives.rename_new(olds[-1], target)


@contextmanager
def _movable(target: bytes, staged: bytes) -> Iterator[None]:
    """Let an owner who is not root move directories that he took the write permission from.

    The kernel asks for it, as it changes their `..`. A kill in between leaves them writable.
    """
    places = (target, staged, *_asides(staged))
    modes = {}
    for path in places:
        if _is_protected(path):
            status = os.lstat(path)
            modes[status.st_ino] = stat.S_IMODE(status.st_mode)
            primitives.set_directory_mode(path, modes[status.st_ino] | stat.S_IWUSR)
    try:
        yield
    finally:
        for path in places:
            mode = modes.get(_inode(path) or 0)
            if mode is not None:
                primitives.set_directory_mode(path, mode)


def _is_protected(path: bytes) -> bool:
    is_directory = os.path.isdir(path) and not os.path.islink(path)
    return is_directory and not os.access(path, os.W_OK, effective_ids=True)


def _asides(staged: bytes) -> list[bytes]:
    """Return the names beside a staged tree that are taken by displaced ones, and the next free."""
    names = (staged + _ASIDE + (b".%d" % number if number else b"") for number in itertools.count())
    taken = list(itertools.takewhile(os.path.lexists, names))
    return [*taken, staged + _ASIDE + (b".%d" % len(taken) if taken else b"")]


def _inode(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None
