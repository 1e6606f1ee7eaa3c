"""snapshot, pin, mark and unpin killed before each step: no record, or the whole fact."""

import pytest
from builders import content_of, copy_tree, digest, families_of, tree_of
from faults import kill_everywhere, steps_of

from cachekeeper.core.paths import path_text


@pytest.mark.parametrize("command", ["snapshot", "pin_first"])
def test_a_command_that_stores_killed_at_any_step(stored, command):
    """The root is never touched; a record is there only with every byte that it names."""
    made = stored
    before = tree_of(made.root)
    work = getattr(made, command)
    counts = []
    names = [name for name, _path in steps_of(work)]
    # One object is stored like the other, and for a pin like for a snapshot.
    numbers = {*range(16), *range(names.index("syncfs") - 5, len(names)), len(names) + 9}
    if command == "pin_first":
        numbers -= {*range(16)}

    def reset():
        copy_tree(made.top + b"/saved-store", made.store)

    for step in kill_everywhere(work, reset, sorted(numbers)):
        made.check()
        counts.append(made.record_count())
        if (step % 12 == 0 or counts[-1] != counts[0]) and len(made.records("pin")) == 1:
            work()
            made.check()
            made.check_clean()
    assert tree_of(made.root) == before
    assert counts[-1] - counts[0] == (1 if command == "snapshot" else 2)
    _check_all_is_stored(made)


def _check_all_is_stored(made):
    """Compare the newest snapshot with the root, by a reading of the manifests that is our own."""
    (root,) = made.records("snapshot")[-1]["body"]["roots"]
    standing = families_of(made.root)
    for family in root["families"]:
        lines = made.object(family["build"]).decode().splitlines()[1:]
        kept = {line.split(" ")[3]: line.split(" ")[2] for line in lines}
        content = content_of(standing[family["path"].encode()])
        assert kept == {
            path_text(path): digest(data)
            for path, data in content.items()
            if not path.endswith((b".lock", b".tmp"))
        }


def test_an_unpin_and_a_mark_killed_at_any_step(pinned):
    """One record each: it is there or not, and the store is whole."""
    made = pinned
    made.save()
    for work in (made.unpin, made.mark):
        made.reset()
        assert steps_of(work)
        for _step in kill_everywhere(work, made.reset):
            made.check()
            assert len(made.records("unpin")) + len(made.records("status")) in (0, 1)
