"""Reading and hashing one file, and noticing when it changes meanwhile.

Files are read, never mapped: a mapped file that another process truncates kills the reader.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from cachekeeper.core.digests import Hasher
from cachekeeper.core.errors import BusyError, FormatError
from cachekeeper.core.paths import shown

CHUNK_BYTES = 1 << 20
# Ticks of a file system's clock: two writes within one tick cannot be told apart (git's racy rule).
_TICK_NS = 50_000_000  # kernel jiffies are 1 to 10 ms
_COARSE_TICK_NS = 2_500_000_000  # FAT and old NFS keep whole or even seconds
_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FileState:
    """What tells that a file was not written since: size in bytes, times in ns, inode, device."""

    size_bytes: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int

    @classmethod
    def of(cls, status: os.stat_result) -> "FileState":
        """Return the state in a stat result."""
        return cls(
            status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev
        )

    def is_settled_at(self, seen_ns: int) -> bool:
        """Tell whether a write after `seen_ns` must show in the times."""
        coarse = self.mtime_ns % _SECOND_NS == 0 and self.ctime_ns % _SECOND_NS == 0
        newest = max(self.mtime_ns, self.ctime_ns)
        return newest + (_COARSE_TICK_NS if coarse else _TICK_NS) < seen_ns


class ChangedWhileReadError(BusyError):
    """A file was written while it was read."""


def open_file(path: bytes) -> int:
    """Return a descriptor of a regular file, never following a link in its last component."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FormatError(f"{shown(path)} is not a regular file")
    return descriptor


def read_through(descriptor: int, path: bytes, sink: Callable[[memoryview], None]) -> FileState:
    """Feed a whole open file to `sink` in chunks; raises ChangedWhileReadError.

    The state before and after must be the same, and so must the number of bytes.
    """
    before = FileState.of(os.fstat(descriptor))
    buffer = bytearray(min(CHUNK_BYTES, before.size_bytes + 1))
    view = memoryview(buffer)
    total = 0
    while count := os.readv(descriptor, [buffer]):
        sink(view[:count])
        total += count
        if total > before.size_bytes:
            break  # its writer could be faster than we are, for ever
    after = FileState.of(os.fstat(descriptor))
    if before != after or total != after.size_bytes:
        raise ChangedWhileReadError(
            f"{shown(path)} changed while it was read", "try again when its writer is done"
        )
    return after


def hash_file(path: bytes) -> tuple[str, FileState]:
    """Return the digest of a file and its state while it was read."""
    descriptor = open_file(path)
    try:
        hasher = Hasher()
        state = read_through(descriptor, path, lambda chunk: _update(hasher, chunk))
    finally:
        os.close(descriptor)
    return hasher.hexdigest(), state


def _update(hasher: Hasher, chunk: memoryview) -> None:
    hasher.update(chunk)


def read_small(path: bytes, limit_bytes: int) -> bytes:
    """Return the content of a file of at most `limit_bytes`; raises FormatError when larger."""
    descriptor = open_file(path)
    try:
        size = os.fstat(descriptor).st_size
        chunks = []
        while size <= limit_bytes and (chunk := os.read(descriptor, CHUNK_BYTES)):
            chunks.append(chunk)
            size = max(size, sum(map(len, chunks)))  # it may have grown since
        if size > limit_bytes:
            raise FormatError(f"{shown(path)} has {size} bytes, more than {limit_bytes}")
    finally:
        os.close(descriptor)
    return b"".join(chunks)
