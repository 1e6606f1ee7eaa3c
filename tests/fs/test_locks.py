import errno
import os
import signal
from contextlib import ExitStack
from multiprocessing import get_context
from threading import Thread
from types import SimpleNamespace

import pytest
from trees import write

from cachekeeper.core.errors import BusyError
from cachekeeper.fs import locks
from cachekeeper.fs.locks import directory_lock, range_lock

FORK = get_context("fork")


class FakeTime:
    """A clock that only sleeping moves; sleeping first lets somebody else act."""

    def __init__(self, act):
        self.now = 1000.0
        self.act = act
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        self.act()


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock of the locks; the act at each sleep can be set."""
    fake = FakeTime(lambda: None)
    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=fake.monotonic, sleep=fake.sleep))
    return fake


def _range(top, *, exclusive, byte=0, timeout_s=0.0):
    return range_lock(top + b"/lock", byte, exclusive=exclusive, timeout_s=timeout_s)


def _directory(top, *, exclusive, timeout_s=0.0):
    return directory_lock(top, exclusive=exclusive, timeout_s=timeout_s)


def _hold(lock, top, exclusive, pipe):
    """Hold a lock in this process until told to let go, or until killed."""
    with lock(top, exclusive=exclusive):
        pipe.send("held")
        pipe.recv()
    pipe.send("free")


class Holder:
    """Another process that holds a lock."""

    def __init__(self, lock, top, *, exclusive):
        self.pipe, end = FORK.Pipe()
        self.process = FORK.Process(target=_hold, args=(lock, top, exclusive, end))
        self.process.start()
        end.close()  # so that a child that dies is not waited for
        assert self.pipe.recv() == "held"

    def let_go(self):
        self.pipe.send("let go")
        assert self.pipe.recv() == "free"

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


@pytest.fixture
def hold(top):
    """Hold a lock of the directory in another process; it is ended after the test."""
    with ExitStack() as stack:

        def start(lock, *, exclusive):
            holder = Holder(lock, top, exclusive=exclusive)
            stack.callback(holder.process.join)
            stack.callback(holder.process.kill)
            return holder

        yield start


LOCKS = pytest.mark.parametrize("lock", [_range, _directory], ids=["range", "directory"])


@LOCKS
@pytest.mark.parametrize(("held", "wanted"), [(True, True), (True, False), (False, True)])
def test_locks_exclude_other_processes(top, hold, lock, held, wanted):
    """Exclusive excludes all, shared excludes exclusive; without a timeout it is told at once."""
    hold(lock, exclusive=held)
    with (
        pytest.raises(BusyError, match=r"in use by another cachekeeper \(waited 0 s\)") as caught,
        lock(top, exclusive=wanted),
    ):
        pytest.fail("both hold the lock")
    assert "--lock-timeout" in caught.value.hint


@LOCKS
def test_shared_locks_do_not_exclude_each_other(top, hold, lock):
    """Two that only read hold it at once, and one who changes things waits for both."""
    hold(lock, exclusive=False)
    with lock(top, exclusive=False), pytest.raises(BusyError), lock(top, exclusive=True):
        pytest.fail("both hold the lock")


@LOCKS
@pytest.mark.parametrize("end", ["let_go", "kill"])
def test_a_lock_is_free_when_its_holder_ends(top, hold, lock, end):
    """Let go or killed with -9: the kernel frees the lock, nobody has to clean up."""
    holder = hold(lock, exclusive=True)
    with pytest.raises(BusyError), lock(top, exclusive=True):
        pytest.fail("both hold the lock")
    getattr(holder, end)()
    with lock(top, exclusive=True):
        assert os.path.isdir(top)


@LOCKS
def test_waiting_ends_when_the_holder_lets_go(top, hold, lock, clock):
    """The lock is asked for again after each sleep, until it is free."""
    holder = hold(lock, exclusive=True)
    clock.act = lambda: holder.let_go() if len(clock.slept) == 3 else None
    with lock(top, exclusive=True, timeout_s=60):
        assert len(clock.slept) == 3


@LOCKS
def test_without_a_timeout_nobody_waits(top, hold, lock, clock):
    """A lock that is held is told at once, a free one is taken at once."""
    holder = hold(lock, exclusive=True)
    with pytest.raises(BusyError), lock(top, exclusive=True):
        pytest.fail("both hold the lock")
    holder.let_go()
    with lock(top, exclusive=True):
        assert clock.slept == []


@LOCKS
def test_waiting_ends_with_the_time_given(top, hold, lock, clock):
    """After the timeout the root or store is said to be busy."""
    hold(lock, exclusive=True)
    with pytest.raises(BusyError, match=r"waited 0\.1 s"), lock(top, exclusive=True, timeout_s=0.1):
        pytest.fail("both hold the lock")
    assert 0.1 <= sum(clock.slept) < 0.2


@LOCKS
def test_a_lock_is_freed_when_its_block_fails(top, lock):
    """An error inside does not leave the lock held, nor a descriptor open."""
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), lock(top, exclusive=True):
            raise ZeroDivisionError
    assert before == len(os.listdir("/proc/self/fd"))


@LOCKS
def test_threads_of_one_process_exclude_each_other(top, lock):
    """The lock belongs to the open file, not to the process."""
    outcome = []

    def other_thread():
        try:
            with lock(top, exclusive=True):
                outcome.append("held")
        except BusyError:
            outcome.append("busy")

    with lock(top, exclusive=True):
        thread = Thread(target=other_thread)
        thread.start()
        thread.join()
    assert outcome == ["busy"]


def test_bytes_of_one_file_are_separate_locks(top):
    """Holding one byte does not hinder another."""
    with _range(top, exclusive=True, byte=0), _range(top, exclusive=True, byte=1):
        assert os.path.getsize(top + b"/lock") == 0


def test_a_missing_lock_file_is_made_private(top):
    """Whoever comes first makes the file, with mode 0600."""
    with _range(top, exclusive=True):
        assert os.stat(top + b"/lock").st_mode & 0o777 == 0o600


def test_a_missing_directory_is_the_systems_error(top):
    """A root that is not there cannot be held."""
    with pytest.raises(FileNotFoundError), _directory(top + b"/missing", exclusive=False):
        pytest.fail("held nothing")
    with pytest.raises(NotADirectoryError), _directory(write(top + b"/file"), exclusive=False):
        pytest.fail("held a file")


def _fail_with(monkeypatch, name, number):
    def fail(*_arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(locks.fcntl, name, fail)


@pytest.mark.parametrize("number", [errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_directory_locks_is_told(top, monkeypatch, number):
    """NFS gives no exclusive lock on what is open for reading: the caller learns it and goes on."""
    _fail_with(monkeypatch, "flock", number)
    with _directory(top, exclusive=True) as able:
        assert able is False


def test_a_held_directory_says_that_it_is_held(top):
    """Where the file system can, the caller is told so."""
    with _directory(top, exclusive=True) as able:
        assert able is True


@pytest.mark.parametrize(("name", "lock"), [("flock", _directory), ("fcntl", _range)])
def test_other_failures_are_told(top, monkeypatch, name, lock):
    """A broken disk is not taken for a lock that is held."""
    before = len(os.listdir("/proc/self/fd"))
    _fail_with(monkeypatch, name, errno.EIO)
    with pytest.raises(OSError, match="Input/output"), lock(top, exclusive=True):
        pytest.fail("held")
    monkeypatch.undo()
    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EACCES])
def test_a_held_range_may_be_told_in_two_ways(top, monkeypatch, number):
    """POSIX lets a system say EACCES or EAGAIN for a range that is held."""
    _fail_with(monkeypatch, "fcntl", number)
    with pytest.raises(BusyError), _range(top, exclusive=False):
        pytest.fail("held")
