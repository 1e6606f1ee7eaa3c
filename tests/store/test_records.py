"""Records: whole facts with numbers of their own, written last."""

import json
import multiprocessing
import os

import pytest
from builders import digest, read, store_litter, write
from faults import failing_at, interrupt, kill_everywhere, os_error

from cachekeeper.core.errors import DamagedStoreError, FormatError, KeeperError, RefusedError
from cachekeeper.store.store import open_store

PROCESSES = 8
EACH = 5


@pytest.fixture
def records(store):
    return store.records


def test_a_record_is_what_its_name_says(store, records):
    """The name holds the number and the digest of exactly these bytes."""
    first = records.append("pin", {"name": "fast"})
    second = records.append("unpin", {"pin": first.digest})
    assert (first.sequence, second.sequence) == (1, 2)
    path = records.path("unpin", second.digest)
    assert path == store.path + f"/records/unpin/000000000002-{second.digest}.json".encode()
    assert digest(read(path)) == second.digest
    assert json.loads(read(path))["body"] == {"pin": first.digest}
    assert records.read("pin", first.digest) == first
    assert open_store(store.path).records.read("unpin", second.digest) == second
    assert store_litter(store.path) == []


def test_a_record_is_whole_at_whichever_step_it_was_killed(store):
    """No record, or a whole one; the next one has the next number."""
    done = 0

    def append():
        open_store(store.path).records.append("unpin", {"pin": "x" * 5000})

    for _step in kill_everywhere(append, lambda: None):
        names = sorted(store.records.names())
        for _sequence, kind, name in names:
            assert store.records.read(kind, name).body == {"pin": "x" * 5000}
        assert [sequence for sequence, _kind, _name in names] == list(range(1, len(names) + 1))
        done = len(names)
    assert done == 1  # only the last step, the directory's fsync, comes after the name
    with store.in_use(timeout_s=0):
        assert store_litter(store.path) == []


@pytest.mark.parametrize("error", [os_error(28), os_error(5), interrupt])
def test_a_failing_step_leaves_no_temporary_file(store, error):
    """The error surfaces, nothing is left, and numbers have no gaps."""
    for step in range(20):
        with failing_at(step, error) as steps:
            try:
                store.records.append("unpin", {"pin": "x"})
            except (OSError, KeyboardInterrupt):
                assert steps.fired
        if not steps.fired:
            break
        assert store_litter(store.path) == []
    assert 4 < step < 19
    numbers = sorted(sequence for sequence, _kind, _name in store.records.names())
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_guard_refuses_before_anything_is_written(store):
    """It is asked under the lock that gives the number."""

    def refuse():
        raise RefusedError("taken")

    with pytest.raises(RefusedError):
        store.records.append("pin", {"name": "fast"}, refuse)
    assert list(store.records.names()) == []
    assert store.records.append("pin", {"name": "fast"}).sequence == 1


def _append(path, together):
    records = open_store(path).records
    together.wait()
    for number in range(EACH):
        records.append("unpin", {"pin": f"{os.getpid()} {number}"})


def test_processes_that_append_at_once_get_numbers_of_their_own(store):
    """Each number once, none missing, all records whole."""
    context = multiprocessing.get_context("fork")
    together = context.Barrier(PROCESSES)
    children = [
        context.Process(target=_append, args=(store.path, together)) for _ in range(PROCESSES)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * PROCESSES
    names = sorted(store.records.names())
    assert [sequence for sequence, _kind, _name in names] == list(range(1, PROCESSES * EACH + 1))
    bodies = {store.records.read(kind, name).body["pin"] for _number, kind, name in names}
    assert len(bodies) == PROCESSES * EACH


@pytest.mark.parametrize("damage", [b"", b"{}", b"[", b"\xff"])
def test_a_damaged_record_is_refused(store, damage):
    """Its digest is not its name's."""
    record = store.records.append("pin", {"name": "fast"})
    write(store.records.path("pin", record.digest), damage, 1)
    with pytest.raises(DamagedStoreError) as caught:
        store.records.read("pin", record.digest)
    assert caught.value.exit_code == 3
    assert "mirror" in caught.value.hint


def test_a_missing_record_is_refused(store):
    """Also when its place was known a moment ago."""
    record = store.records.append("pin", {"name": "fast"})
    path = store.records.path("pin", record.digest)
    os.unlink(path)
    for reader in (store, open_store(store.path)):
        with pytest.raises(DamagedStoreError):
            reader.records.read("pin", record.digest)


def test_a_record_of_another_kind_is_refused(store):
    """A file that was moved to another kind's directory is not of that kind."""
    record = store.records.append("pin", {"name": "fast"})
    path = store.records.path("pin", record.digest)
    moved = path.replace(b"/pin/", b"/unpin/")
    os.mkdir(os.path.dirname(moved))
    os.rename(path, moved)
    with pytest.raises(FormatError):
        open_store(store.path).records.read("unpin", record.digest)


def test_strange_names_among_the_records_are_no_records(store):
    """What a mirror or a person left there has no number."""
    record = store.records.append("pin", {"name": "fast"})
    for name in (b"notes", b"1-abc.json", b".000000000002-x", b"\xff"):
        write(store.path + b"/records/pin/" + name, b"", 1)
    assert list(store.records.names()) == [(1, "pin", record.digest)]


def test_a_record_that_is_a_link_is_not_followed(store, top):
    """A link could lead to a device that never ends."""
    record = store.records.append("pin", {"name": "fast"})
    path = store.records.path("pin", record.digest)
    os.rename(path, top + b"/elsewhere")
    os.symlink(top + b"/elsewhere", path)
    with pytest.raises(KeeperError):
        store.records.read("pin", record.digest)
