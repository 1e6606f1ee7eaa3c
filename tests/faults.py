"""Killing, failing and interrupting cachekeeper before each system call that changes the disk.

`kill_at(n, work)` runs `work` in a forked child that ends without any clean-up before its n-th
primitive, as kill -9 or a power cut would; `fail_at` raises in this process instead.
"""

import gc
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager

from cachekeeper.fs import primitives

KILLED = 137
FINISHED = 0
_FAILED = 99
_MOST_STEPS = 2000

Work = Callable[[], object]
MakeError = Callable[[bytes], BaseException]
NEEDS_SPACE = frozenset({"mkdir", "create", "write", "copy", "symlink", "link"})


class Steps:
    """Counts primitives and acts before the n-th, or from there on before all that `lasting` names.

    `fired` are the names of those that it acted before.
    """

    def __init__(
        self, number: int, act: Callable[[bytes], object], lasting: Container[str] = ()
    ) -> None:
        self.number = number
        self.act = act
        self.lasting = lasting
        self.names: list[str] = []
        self.fired: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, name: str, path: bytes) -> None:
        with self._lock:
            here = len(self.names)
            self.names.append(name)
            lasts = here >= self.number and name in self.lasting
            hit = lasts or (here == self.number and not self.lasting)
            if hit:
                self.fired.append(name)
        if hit:
            self.act(path)


def kill_at(number: int, work: Work, errors: Mapping[int, MakeError] | None = None) -> bool:
    """Run `work` in a child that dies before its n-th primitive; tell whether it died there.

    `errors` are raised before earlier steps.
    """

    def child() -> None:
        steps: list[str] = []

        def hook(name: str, path: bytes) -> None:
            here = len(steps)
            steps.append(name)
            if here == number:
                os._exit(KILLED)
            if errors and here in errors:
                raise errors[here](path)

        with primitives.before_each(hook):
            work()

    status = in_child(child)
    assert status in (KILLED, FINISHED), status
    return status == KILLED


def in_child(work: Work) -> int:
    """Run `work` in a forked child and return its exit status; its traceback fails the test."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns of forking beside threads; the children here start their own.
        warnings.filterwarnings("ignore", message=".*multi-threaded.*", category=DeprecationWarning)
        process = os.fork()
    if process == 0:
        status = _FAILED
        gc.disable()  # collecting would copy the parent's pages
        try:
            os.close(reader)
            work()
            status = FINISHED
        except BaseException:  # noqa: BLE001  the parent shows it
            os.write(writer, traceback.format_exc().encode()[-60_000:])
        finally:
            os._exit(status)
    os.close(writer)
    with open(reader, "rb") as pipe:
        words = pipe.read().decode()
    _process, wait_status = os.waitpid(process, 0)
    status = os.waitstatus_to_exitcode(wait_status)
    assert status != _FAILED, words
    return status


def kill_everywhere(work: Work, reset: Work, numbers: Iterable[int] = ()) -> Iterator[int]:
    """Reset and kill `work` at every step, or at these; yields the step after each kill.

    The last run must not be killed: it finishes.
    """
    for number in numbers or range(_MOST_STEPS):
        reset()
        if not kill_at(number, work):
            return
        yield number
    raise AssertionError("never finished")


def steps_of(work: Work) -> list[tuple[str, bytes]]:
    """Run `work` here and return the primitives it came by, with their paths."""
    seen: list[tuple[str, bytes]] = []
    with primitives.before_each(lambda name, path: seen.append((name, path))):
        work()
    return seen


@contextmanager
def failing_at(number: int, error: MakeError, lasting: Container[str] = ()) -> Iterator[Steps]:
    """Raise before the n-th primitive inside the block, once or from there on."""

    def act(path: bytes) -> None:
        raise error(path)

    steps = Steps(number, act, lasting)
    with primitives.before_each(steps):
        yield steps


def os_error(number: int) -> MakeError:
    """Return a maker of this error for a path."""
    return lambda path: OSError(number, os.strerror(number), path)


def interrupt(_path: bytes) -> KeyboardInterrupt:
    """Return what Ctrl-C raises."""
    return KeyboardInterrupt()


@contextmanager
def at_step(name: str, path_part: bytes, act: Work, *, times: int = 1) -> Iterator[list[str]]:
    """Call `act` before a primitive of this name on such a path; the list says how often it was."""
    done: list[str] = []
    inside = threading.local()

    def hook(step: str, path: bytes) -> None:
        if step == name and path_part in path and len(done) < times:
            if getattr(inside, "busy", False):
                return
            done.append(step)
            inside.busy = True
            try:
                act()
            finally:
                inside.busy = False

    with primitives.before_each(hook):
        yield done


@contextmanager
def no_exchange() -> Iterator[None]:
    """Behave like a file system without RENAME_EXCHANGE: two renames must do."""
    original = primitives._renameat2

    def refuse(source: bytes, target: bytes, flag: int) -> int:
        if flag == primitives._RENAME_EXCHANGE:
            primitives.ctypes.set_errno(22)
            return -1
        return original(source, target, flag)

    primitives._renameat2 = refuse
    try:
        yield
    finally:
        primitives._renameat2 = original


def as_user(uid: int, work: Work) -> None:
    """Run `work` in a child without root's rights, for permissions that root does not feel."""

    def drop() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        work()

    assert in_child(drop) == FINISHED
