"""The attribute list: how a family's files stood on disk, so that a restore can put them back.

Format: docs/design/store-format.md. It holds what the build id leaves out: directories, modes,
owners, times, lock files and, for displaced content, temporary files.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cachekeeper.core.digests import digest_of, parse_digest
from cachekeeper.core.errors import FormatError
from cachekeeper.core.manifest import ascii_lines, parse_count
from cachekeeper.core.paths import check_inside, parse_path, path_text

AttributeKind = Literal["d", "f", "l", "k", "t"]
_KINDS: dict[str, AttributeKind] = {"d": "d", "f": "f", "l": "l", "k": "k", "t": "t"}
_HEADER = "cachekeeper-attributes 1"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One path's kind, permission bits, uid, gid and mtime in ns; size and digest for `k`, `t`."""

    path: bytes
    kind: AttributeKind
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    size_bytes: int = 0
    digest: str = ""


@dataclass(frozen=True)
class AttributeList:
    """Attributes sorted by the bytes of their paths."""

    entries: tuple[Attribute, ...]

    @classmethod
    def of(cls, entries: Iterable[Attribute]) -> "AttributeList":
        """Return the list of attributes given in any order."""
        return cls(tuple(sorted(entries, key=lambda entry: entry.path)))

    @property
    def digest(self) -> str:
        """Return the digest of the canonical bytes."""
        return digest_of(self.to_bytes())

    def by_path(self) -> dict[bytes, Attribute]:
        """Return the attributes by path."""
        return {entry.path: entry for entry in self.entries}

    def to_bytes(self) -> bytes:
        """Return the canonical bytes."""
        lines = [_HEADER, *(_line(entry) for entry in self.entries)]
        return ("\n".join(lines) + "\n").encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> "AttributeList":
        """Return the list written in `data`; raises FormatError."""
        entries = tuple(_parse_line(line) for line in ascii_lines(data, _HEADER))
        paths = [entry.path for entry in entries]
        if paths != sorted(set(paths)):
            raise FormatError("the attribute list is out of order or names a path twice")
        return cls(entries)


def _line(entry: Attribute) -> str:
    kept = f"{entry.size_bytes} {entry.digest}" if entry.kind in ("k", "t") else "- -"
    head = f"{entry.kind} {entry.mode:o} {entry.uid} {entry.gid} {entry.mtime_ns}"
    return f"{head} {kept} {path_text(entry.path)}"


def _parse_line(line: str) -> Attribute:
    fields = line.split(" ")
    if len(fields) != 8 or fields[0] not in _KINDS:
        raise FormatError(f"{line!r} is not an attribute line")
    kind = _KINDS[fields[0]]
    path = check_inside(parse_path(fields[7]))
    try:
        mode = int(fields[1], 8)
        mtime_ns = int(fields[4])
    except ValueError as error:
        raise FormatError(f"{line!r} is not an attribute line") from error
    if not 0 <= mode <= 0o7777:
        raise FormatError(f"{line!r} has an impossible mode")
    uid, gid = parse_count(fields[2]), parse_count(fields[3])
    if kind in ("k", "t"):
        kept = (parse_count(fields[5]), parse_digest(fields[6]))
        return Attribute(path, kind, mode, uid, gid, mtime_ns, *kept)
    if fields[5:7] != ["-", "-"]:
        raise FormatError(f"{line!r} is not an attribute line")
    return Attribute(path, kind, mode, uid, gid, mtime_ns)
