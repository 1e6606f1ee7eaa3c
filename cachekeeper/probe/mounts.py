"""Mount points, as the kernel lists them for this process (proc(5), /proc/self/mountinfo)."""

import re

_TABLE = b"/proc/self/mountinfo"
_MOUNT_POINT = 4  # mountinfo's fifth field, with \040 and the like for white space
_ESCAPE = re.compile(rb"\\([0-7]{3})")


def mounts_below(top: bytes, table: bytes = _TABLE) -> tuple[bytes, ...]:
    """Return the mount points at or below an absolute real path; none where none can be told."""
    try:
        with open(table, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return ()
    points = (_unescaped(line.split(b" ")[_MOUNT_POINT]) for line in lines if line.count(b" ") >= 9)
    return tuple(sorted({p for p in points if p == top or p.startswith(top + b"/")}))


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), text)
