"""Objects: whole under their name or not there, never changed, never shared."""

import errno
import os
import threading

import pytest
from builders import digest, read, store_litter, write
from faults import at_step, failing_at, interrupt, kill_everywhere, os_error

from cachekeeper.core.errors import DamagedStoreError
from cachekeeper.fs.reading import CHUNK_BYTES, ChangedWhileReadError
from cachekeeper.store.objects import Stored
from cachekeeper.store.store import open_store

LARGE = os.urandom(CHUNK_BYTES + 7) + b"\0" * CHUNK_BYTES


@pytest.fixture
def objects(store):
    return store.objects


@pytest.fixture(params=[b"", b"small", LARGE], ids=["empty", "small", "large"])
def file(request, top):
    write(top + b"/file", request.param, 1)
    return top + b"/file"


def test_an_object_is_named_by_its_bytes(objects, file):
    """Its path is the digest, its mode 0444, its link count 1."""
    data = read(file)
    stored, state = objects.put_file(file)
    assert stored == Stored(digest(data), len(data), len(data))
    assert state.size_bytes == len(data)
    path = objects.path(stored.digest)
    assert path.endswith(f"/objects/{stored.digest[:2]}/{stored.digest[2:]}".encode())
    status = os.lstat(path)
    assert (status.st_mode & 0o7777, status.st_nlink, read(path)) == (0o444, 1, data)
    assert objects.read(stored.digest, 1 << 30) == data
    assert objects.has(stored.digest, len(data))
    assert list(objects.all_digests()) == [stored.digest]


def test_the_same_bytes_are_stored_once(objects, file):
    """The second time nothing is new and the file on disk is left alone."""
    first, _state = objects.put_file(file)
    before = os.lstat(objects.path(first.digest))
    again, _state = objects.put_file(file)
    assert again == Stored(first.digest, first.size_bytes, 0)
    assert objects.put_bytes(read(file)) == again
    assert os.lstat(objects.path(first.digest)).st_ino == before.st_ino


def test_an_object_is_whole_at_whichever_step_it_was_killed(store, file):
    """Whole or absent; putting it again makes it whole."""
    name = digest(read(file))

    def reset():
        if os.path.exists(store.objects.path(name)):
            os.unlink(store.objects.path(name))

    for _step in kill_everywhere(lambda: open_store(store.path).objects.put_file(file), reset):
        assert store.objects.verify(name) in (None, "missing")
        with store.in_use(timeout_s=0):
            assert store_litter(store.path) == []
        store.objects.put_file(file)
        assert store.objects.verify(name) is None


@pytest.mark.parametrize(
    "error",
    [os_error(errno.ENOSPC), os_error(errno.EIO), interrupt],
    ids=["ENOSPC", "EIO", "interrupt"],
)
def test_a_failing_step_leaves_no_temporary_file(store, file, error):
    """The error surfaces, and this process cleans up behind itself."""
    for step in range(20):
        with failing_at(step, error) as steps:
            try:
                store.objects.put_file(file)
            except (OSError, KeyboardInterrupt):
                assert steps.fired
        if not steps.fired:
            break
        assert store_litter(store.path) == []
        assert store.objects.verify(digest(read(file))) in (None, "missing")
    assert 3 < step < 19


def test_a_file_that_changes_while_it_is_read_is_not_stored(objects, store, top):
    """A large file is copied while it is hashed: what was not one state gets no name."""
    write(top + b"/file", LARGE, 1)

    def append():
        with open(top + b"/file", "ab") as file:
            file.write(b"more")

    with at_step("write", b"/tmp/", append), pytest.raises(ChangedWhileReadError):
        objects.put_file(top + b"/file")
    assert list(objects.all_digests()) == []
    assert store_litter(store.path) == []


@pytest.mark.parametrize("damage", ["flipped", "truncated", "deleted", "grown", "a directory"])
def test_a_damaged_object_is_never_handed_out(objects, file, damage):
    """Reading verifies, and says what to do; looking says what is wrong."""
    data = read(file)
    if not data and damage in ("flipped", "truncated"):
        pytest.skip("nothing to damage")
    stored, _state = objects.put_file(file)
    path = objects.path(stored.digest)
    os.unlink(path)
    if damage == "flipped":
        write(path, data[:-1] + bytes([data[-1] ^ 1]), 1, 0o444)
    elif damage == "truncated":
        write(path, data[:-1], 1, 0o444)
    elif damage == "grown":
        write(path, data + b"!", 1, 0o444)
    elif damage == "a directory":
        os.mkdir(path)
    expected = {"deleted": "missing", "a directory": "unreadable"}.get(damage, "damaged")
    assert objects.verify(stored.digest) == expected
    with pytest.raises(DamagedStoreError) as caught:
        objects.read(stored.digest, 1 << 30)
    assert "check" in caught.value.hint


def test_good_bytes_replace_a_damaged_object_in_one_step(objects, store, file):
    """While it is healed there is always an object of that name, and at the end the right one."""
    data = read(file)
    stored, _state = objects.put_file(file)
    path = objects.path(stored.digest)

    def damage():
        os.chmod(path, 0o600)
        write(path, b"?" * len(data) or b"?", 1, 0o444)

    for _step in kill_everywhere(
        lambda: open_store(store.path).objects.replace_damaged(stored.digest, file), damage
    ):
        assert os.path.exists(path)
        assert objects.verify(stored.digest) in (None, "damaged")
    assert objects.verify(stored.digest) is None
    assert os.lstat(path).st_nlink == 1


def test_other_bytes_do_not_replace_a_damaged_object(objects, store, file, top):
    """A live file that is not the object's content leaves it for a better source."""
    stored, _state = objects.put_file(file)
    write(top + b"/other", b"other", 1)
    write(objects.path(stored.digest) + b".keep", b"", 1)
    os.unlink(objects.path(stored.digest) + b".keep")
    os.chmod(objects.path(stored.digest), 0o600)
    write(objects.path(stored.digest), b"damaged", 1, 0o444)
    assert not objects.replace_damaged(stored.digest, top + b"/other")
    assert read(objects.path(stored.digest)) == b"damaged"
    assert store_litter(store.path) == []


def test_threads_that_store_the_same_bytes_agree(objects, file):
    """Whoever is first, there is one whole object."""
    together = threading.Barrier(8)
    found = []

    def put():
        together.wait()
        found.append(objects.put_file(file)[0].digest)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {digest(read(file))}
    assert list(objects.all_digests()) == [digest(read(file))]
    assert objects.verify(digest(read(file))) is None


def test_strange_names_among_the_objects_do_not_stop_the_listing(objects, store):
    """What a mirror or a person left there is no object."""
    kept = objects.put_bytes(b"kept").digest
    write(store.path + b"/objects/notes", b"", 1)
    write(store.path + b"/objects/ab/.cdef.XyZ", b"", 1)
    write(store.path + b"/objects/ab/" + b"g" * 62, b"", 1)
    write(store.path + b"/objects/\xff\xfe/" + b"0" * 62, b"", 1)
    assert list(objects.all_digests()) == [kept]
