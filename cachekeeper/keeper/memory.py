"""Remembered digests: which live files were not written since they were hashed.

Only a saving of reading, never evidence: a digest is trusted only while size, mtime, ctime, inode
and device are the same and the file was old enough, when it was hashed, for a later write to show
(git's racy rule). Pinned families are hashed all the same.
"""

import zlib
from collections.abc import Mapping

from cachekeeper.core.errors import FormatError
from cachekeeper.core.paths import parse_path, path_text
from cachekeeper.fs.reading import FileState

Memory = Mapping[bytes, tuple[FileState, str]]
_HEADER = "cachekeeper-memory 1"
_LIMIT_BYTES = 256 << 20


def encode_memory(memory: Memory) -> bytes:
    """Return a family's memory as compressed text."""
    lines = [_HEADER]
    for path, (state, digest) in memory.items():
        times = f"{state.mtime_ns} {state.ctime_ns}"
        place = f"{state.inode} {state.device}"
        lines.append(f"{state.size_bytes} {times} {place} {digest} {path_text(path)}")
    return zlib.compress("\n".join(lines).encode("ascii"), 1)


def decode_memory(data: bytes) -> dict[bytes, tuple[FileState, str]]:
    """Return the memory in `data`; an unreadable one is no memory."""
    try:
        text = zlib.decompressobj().decompress(data, _LIMIT_BYTES).decode("ascii")
        header, *lines = text.split("\n")
        if header != _HEADER:
            return {}
        return dict(_parse(line) for line in lines)
    except (zlib.error, UnicodeDecodeError, ValueError, FormatError):
        return {}


def _parse(line: str) -> tuple[bytes, tuple[FileState, str]]:
    size, mtime, ctime, inode, device, digest, path = line.split(" ")
    state = FileState(int(size), int(mtime), int(ctime), int(inode), int(device))
    return parse_path(path), (state, digest)
