"""Locks that the kernel drops when their holder dies: byte ranges of one file, and directories."""

import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cachekeeper.core.errors import BusyError
from cachekeeper.core.paths import shown

# struct flock on Linux, 64 bit: l_type, l_whence, l_start, l_len, l_pid (0 for OFD locks).
_FLOCK = struct.Struct("hhqqi4x")
_POLL_S = 0.02


def _retry(attempt: Callable[[], bool], timeout_s: float, busy: BusyError) -> None:
    """Call `attempt` until it is true; raises `busy` after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not attempt():
        if time.monotonic() >= deadline:
            raise busy
        time.sleep(_POLL_S)


@contextmanager
def range_lock(path: bytes, byte: int, *, exclusive: bool, timeout_s: float) -> Iterator[None]:
    """Hold one byte of a lock file; raises BusyError after `timeout_s` seconds.

    OFD locks belong to the open file, so threads of one process exclude each other too.
    """
    flags = os.O_CLOEXEC | os.O_CREAT | (os.O_RDWR if exclusive else os.O_RDONLY)
    descriptor = os.open(path, flags, 0o600)
    kind = fcntl.F_WRLCK if exclusive else fcntl.F_RDLCK

    def attempt() -> bool:
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    try:
        busy = BusyError(
            f"the store is in use by another cachekeeper (waited {timeout_s:g} s)",
            "wait for it, or give --lock-timeout more seconds",
        )
        _retry(attempt, timeout_s, busy)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def directory_lock(path: bytes, *, exclusive: bool, timeout_s: float) -> Iterator[bool]:
    """Hold a directory by `flock`; yields False where the file system cannot; raises BusyError.

    NFS gives no exclusive lock on what is open for reading: there the store's lock must do.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    operation = (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB
    able = True

    def attempt() -> bool:
        nonlocal able
        try:
            fcntl.flock(descriptor, operation)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            able = False
        return True

    try:
        busy = BusyError(
            f"the root {shown(path)} is in use by another cachekeeper (waited {timeout_s:g} s)",
            "wait for it, or give --lock-timeout more seconds",
        )
        _retry(attempt, timeout_s, busy)
        yield able
    finally:
        os.close(descriptor)
