"""Exchanging staged trees with live ones: each family is old or new, never mixed.

Rolling forward is the only way: when an intent exists, everything it names is staged, verified and
durable, and what it displaces is in the store. Which side a family is on is told by inodes, so
rolling forward may be repeated after a kill at any point.
"""

import os

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
            _exchange_item(target, os.path.join(directory, item.staged), item)
    for parent in sorted(parents):
        primitives.sync_directory(parent)
    primitives.sync_directory(directory)


def is_exchanged(root: bytes, item: IntentItem) -> bool:
    """Tell whether the staged tree of an item stands in its place."""
    return _inode(os.path.join(root, item.target)) == item.staged_inode


def displaced_path(root: bytes, intent: Intent, item: IntentItem) -> bytes | None:
    """Return where an exchanged item's old tree lies now, or None where there was none."""
    if item.live_inode is None:
        return None
    staged = os.path.join(working_directory(root, intent.restore), item.staged)
    for path in (staged, staged + _ASIDE):
        if _inode(path) == item.live_inode:
            return path
    return None


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
    primitives.rename_new(target, staged + _ASIDE)
    primitives.rename_new(staged, target)


def _inode(path: bytes) -> int | None:
    try:
        return os.lstat(path).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None
