"""A killed restore that cannot be finished is ended: nothing blocks the root, nothing is lost."""

import os

from builders import copy_tree, digests_of, remove_tree, stored_digests, tree_of, working_litter
from scenario import OLD


def working_directory(root):
    """Return the one working directory in a root."""
    (name,) = working_litter(root)
    return name if name.startswith(b"/") else root + b"/" + name


def test_without_its_staging_a_torn_restore_is_put_back(overwritten):
    """What was exchanged goes back to what it displaced; the root is free for the next restore."""
    overwritten.tear()
    new = working_directory(overwritten.root) + b"/new"
    staged = [new + b"/" + name for name in os.listdir(new)]
    displaced = set()
    for path in staged:
        now = tree_of(path)
        if any(now == tree for tree in overwritten.old.values()):
            displaced.add(path)
        else:
            remove_tree(path)
    assert displaced

    (said,) = overwritten.recover()

    assert "gave up" in said
    assert {OLD} == set(overwritten.sides().values())
    assert working_litter(overwritten.root) == []
    overwritten.restore()
    overwritten.check()


def test_a_root_copied_with_its_working_directory_is_usable(overwritten):
    """In a copy nothing has the inodes of the intent: what was left is stored and removed."""
    overwritten.tear()
    copy_tree(overwritten.root, overwritten.top + b"/copy")
    remove_tree(overwritten.root)
    os.rename(overwritten.top + b"/copy", overwritten.root)
    left = digests_of([tree_of(working_directory(overwritten.root) + b"/new")])

    (said,) = overwritten.recover()

    assert "gave up" in said
    assert working_litter(overwritten.root) == []
    assert left
    assert left <= stored_digests(overwritten.store)
    overwritten.check()
