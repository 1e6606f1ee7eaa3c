"""Making, opening and holding a store."""

import errno
import json
import os
import stat

import pytest
from builders import read, store_litter, tree_of, write
from faults import as_user, at_step, failing_at, in_child, interrupt, kill_everywhere, os_error

from cachekeeper.core.errors import (
    BusyError,
    DamagedStoreError,
    IoError,
    KeeperError,
    NewerFormatError,
    UsageError,
)
from cachekeeper.store.store import create_store, open_store, store_exists

NOBODY = 65534


def _mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def _fact_of(path):
    """Return what an IoError says; no other error may come."""
    try:
        create_store(path)
    except IoError as error:
        return error.fact
    return ""


def test_a_new_store_is_private(top):
    """Directories 0700, whatever the umask: artifacts hold source text and keys."""
    before = os.umask(0)
    try:
        store = create_store(top + b"/deep/er/store")
        store.records.append("unpin", {"pin": store.objects.put_bytes(b"x").digest})
    finally:
        os.umask(before)
    modes = {
        _mode(os.path.join(parent, name))
        for parent, directories, _files in os.walk(store.path)
        for name in directories
    }
    assert modes | {_mode(store.path)} == {0o700}
    others = {
        name
        for parent, _directories, files in os.walk(store.path)
        for name in files
        if _mode(os.path.join(parent, name)) & 0o077 and not parent.count(b"/objects/")
    }
    assert others == set()


def test_an_empty_directory_becomes_private(top):
    """A directory that the user made, open to all, is closed when it becomes a store."""
    os.mkdir(top + b"/store")
    os.chmod(top + b"/store", 0o755)
    create_store(top + b"/store")
    assert _mode(top + b"/store") == 0o700


def test_a_store_is_made_whole_at_whichever_step_it_was_killed(top):
    """Half a store is no store, and making it again gives a whole one without litter."""
    path = top + b"/store"

    def reset():
        os.system(f"rm -rf {os.fsdecode(path)}")

    for _step in kill_everywhere(lambda: create_store(path), reset):
        assert store_exists(path) in (False, True)
        store = create_store(path)
        assert open_store(path) == open_store(path) or store.store_id
        with store.in_use(timeout_s=0):
            assert store.records.append("unpin", {"pin": "x"}).sequence == 1
        assert store_litter(path) == []
        assert _mode(path) == 0o700
    assert read(path + b"/README").startswith(b"This directory belongs to cachekeeper.")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_a_store_that_cannot_be_made_says_so(top, number):
    """Each failing step is an IoError with the place; the next attempt makes it whole."""
    for step in range(100):
        path = top + b"/store%d" % step
        with failing_at(step, os_error(number)) as steps:
            fact = _fact_of(path)
        assert not fact or path.decode() in fact
        if not steps.fired:
            break
        with create_store(path).in_use(timeout_s=0):
            assert store_litter(path) == []
    assert 10 < step < 99


def test_an_interrupted_making_can_be_repeated(top):
    """Ctrl-C at each step leaves no temporary file of this process behind."""
    for step in range(100):
        path = top + b"/store%d" % step
        with failing_at(step, interrupt) as steps:
            try:
                create_store(path)
            except KeyboardInterrupt:
                assert steps.fired
        if not steps.fired:
            break
        create_store(path)
        assert store_litter(path) == []
    assert 10 < step < 99


@pytest.mark.parametrize("name", ["notes.txt", "catalogue.sqlite", "objects2", ".hidden"])
def test_a_foreign_directory_is_refused(top, name):
    """What is not empty and no store is left exactly as it is."""
    write(top + b"/store/" + name.encode(), b"mine", 1)
    before = tree_of(top)
    with pytest.raises(UsageError) as caught:
        create_store(top + b"/store")
    assert "not a cachekeeper store" in caught.value.fact
    assert caught.value.hint
    assert tree_of(top) == before


def test_a_store_without_its_format_file_is_damaged(store):
    """With records in it, it is no half-made store that may get another id."""
    store.records.append("unpin", {"pin": "x"})
    os.unlink(store.path + b"/format.json")
    for name in (b"", b"/catalogue.sqlite"):
        if name:
            write(store.path + name, b"", 1)
        before = tree_of(store.path)
        with pytest.raises(DamagedStoreError):
            create_store(store.path)
        assert tree_of(store.path) == before


def test_a_store_that_came_meanwhile_is_opened(top):
    """Another process makes the same store between the look and the first step."""
    path = top + b"/store"
    made = []

    def other():
        made.append(create_store(path).store_id)
        write(path + b"/catalogue.sqlite", b"", 1)

    with at_step("mkdir", path, other):
        assert create_store(path).store_id == made[0]


@pytest.mark.parametrize("change", [{"format": 2}, {"format": 99}, {"digest": "sha3"}])
def test_a_newer_format_is_refused(store, change):
    """Nothing is changed, and the hint is the way out."""
    path = store.path + b"/format.json"
    whole = {**json.loads(read(path)), **change}
    write(path, json.dumps(whole).encode(), 1)
    before = tree_of(store.path)
    for attempt in (open_store, create_store):
        with pytest.raises(NewerFormatError) as caught:
            attempt(store.path)
        assert (caught.value.exit_code, "upgrade" in caught.value.hint) == (3, True)
    assert tree_of(store.path) == before


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b'{"format": 1}', b"\xff", b"1" * 70000]
)
def test_a_damaged_format_file_is_said(store, data):
    """A format file that cannot be read is damage, with a hint, never a traceback."""
    write(store.path + b"/format.json", data, 1)
    with pytest.raises(KeeperError) as caught:
        open_store(store.path)
    assert caught.value.exit_code == 3


def test_a_store_of_another_user_is_not_taken_for_none(store, top):
    """What may not be read is said, never taken for absence."""

    def look():
        with pytest.raises(IoError):
            store_exists(store.path)
        with pytest.raises(KeeperError):
            open_store(store.path)

    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    opened = top
    while opened != b"/tmp" and len(opened) > 1:
        os.chmod(opened, 0o711)
        opened = os.path.dirname(opened)
    as_user(NOBODY, look)


def test_a_path_below_a_file_is_no_store(top):
    """A store cannot lie there, so there is none."""
    write(top + b"/file", b"", 1)
    assert not store_exists(top + b"/file/store")
    with pytest.raises(IoError):
        create_store(top + b"/file/store")


def test_temporary_files_of_the_dead_are_removed(store):
    """The next one who uses the store removes them; it keeps what is not ours."""

    def die():
        with store.in_use(timeout_s=0), at_step("rename", b"/objects/", lambda: os._exit(7)):
            store.objects.put_bytes(b"never finished")

    assert in_child(die) == 7
    assert len(store_litter(store.path)) == 1
    write(store.path + b"/tmp/notes", b"mine", 1)
    with store.in_use(timeout_s=0):
        assert store_litter(store.path) == [b"notes"]


def test_temporary_files_of_the_living_stay(store):
    """While another process uses the store nothing in it is taken for litter."""

    def look():
        with open_store(store.path).in_use(timeout_s=0):
            assert len(store_litter(store.path)) == 1

    with store.in_use(timeout_s=0), at_step("rename", b"/objects/", look):
        stored = store.objects.put_bytes(b"finished")
    assert store.objects.verify(stored.digest) is None


def test_clearing_never_keeps_anybody_out(store):
    """A store that cannot be cleared is used all the same."""
    write(store.path + b"/tmp/object." + b"0" * 32, b"", 1)
    with failing_at(0, os_error(errno.EROFS)) as steps, store.in_use(timeout_s=0):
        pass
    assert steps.fired == ["unlink"]
    with store.in_use(timeout_s=0):
        assert store_litter(store.path) == []


def test_a_mirror_without_tmp_and_lock_can_be_used(store):
    """The README's rsync leaves `tmp` out; it and the lock are made again."""
    os.rmdir(store.path + b"/tmp")
    os.unlink(store.path + b"/lock")
    mirror = open_store(store.path)
    with mirror.in_use(timeout_s=0):
        assert mirror.records.append("unpin", {"pin": "x"}).sequence == 1


def test_who_removes_waits_for_who_adds(store):
    """Shared users are many, an exclusive one is alone, and the refusal names the way out."""
    with store.in_use(timeout_s=0), open_store(store.path).in_use(timeout_s=0):
        with pytest.raises(BusyError) as caught, store.in_use(exclusive=True, timeout_s=0):
            pass
        assert "--lock-timeout" in caught.value.hint
    with (
        store.in_use(exclusive=True, timeout_s=0),
        pytest.raises(BusyError),
        store.in_use(timeout_s=0),
    ):
        pass
