"""A root in which a restore was prepared: staged trees beside live ones, and the intent's value."""

import os
from dataclasses import dataclass

from trees import read, tree, write

from cachekeeper.fs.intent import Intent, IntentItem, working_directory

RESTORE = "0123456789abcdef" * 2
STORE = "fedcba9876543210" * 2
REPLACED = b"torch_compile_cache/torch_aot_compile/c158"
NEW = b"torch_compile_cache/0c79dd93f4/deep"
FILE = b"modelinfos.json"
OLD_TREE = {b"model": b"old", b"gone": b"old", b"a": None, b"a/x": b"old"}
NEW_TREE = {b"model": b"new", b"a": None, b"a/x": b"new", b"a/y": b"new"}


@dataclass(frozen=True)
class Prepared:
    """A root with a prepared restore."""

    root: bytes
    intent: Intent

    def path(self, target):
        return os.path.join(self.root, target)

    def staged(self, target):
        item = next(item for item in self.intent.items if item.target == target)
        return os.path.join(working_directory(self.root, RESTORE), item.staged)

    def content(self, target):
        return content_of(self.path(target))


def content_of(path):
    """Return what stands at a path: a tree, a file's content, or None."""
    if os.path.isdir(path):
        return tree(path)
    return read(path) if os.path.lexists(path) else None


def fill(path, content):
    """Write a tree as `trees.tree` returns it, or a file."""
    if isinstance(content, bytes):
        return write(path, content)
    for name, text in content.items():
        if text is not None:
            write(os.path.join(path, name), text)
    return path


# target: (what stands there, what is staged)
WANTED = {
    REPLACED: (OLD_TREE, NEW_TREE),
    NEW: (None, NEW_TREE),
    FILE: (b"old", b"new"),
}


def prepare(root, targets=tuple(WANTED)):
    """Make a root with live and staged trees; nothing is exchanged and no intent written yet."""
    items = []
    os.makedirs(os.path.join(working_directory(root, RESTORE), b"new"))
    for number, target in enumerate(targets):
        old, new = WANTED[target]
        live = os.path.join(root, target)
        if old is not None:
            fill(live, old)
        staged = fill(os.path.join(working_directory(root, RESTORE), b"new/%d" % number), new)
        live_inode = os.lstat(live).st_ino if old is not None else None
        items.append(IntentItem(target, b"new/%d" % number, os.lstat(staged).st_ino, live_inode))
    record = {"restore": RESTORE, "families": [], "recovered": False}
    return Prepared(root, Intent(RESTORE, STORE, "/store%20of%20mine", tuple(items), record))
