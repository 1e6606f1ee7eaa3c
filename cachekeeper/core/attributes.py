"""The attribute list: how a family's files stood on disk, so that a restore can put them back.

Format: docs/design/store-format.md. It holds what the build id leaves out: directories, modes,
owners, times, lock files and, for displaced content, temporary files.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cachekeeper.core.digests import digest_of, parse_digest
from cachekeeper.core.errors import FormatError
from cachekeeper.core.manifest import ascii_lines, check_order, parse_count
from cachekeeper.core.paths import check_inside, parse_path, path_text

AttributeKind = Literal["d", "f", "l", "k", "t"]
_KINDS: dict[str, AttributeKind] = {"d": "d", "f": "f", "l": "l", "k": "k", "t": "t"}
_HEADER = "cachekeeper-attributes 1"
_MODE = re.compile(r"0|[1-7][0-7]{0,3}")
_TIME = re.compile(r"0|-?[1-9][0-9]{0,29}")


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
        """Return the list of attributes in any order; raises FormatError for a path twice."""
        attributes = cls(tuple(sorted(entries, key=lambda entry: entry.path)))
        attributes._check()
        return attributes

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
        attributes = cls(tuple(_parse_line(line) for line in ascii_lines(data, _HEADER)))
        attributes._check()
        return attributes

    def _check(self) -> None:
        """Refuse also what lies below a link: writing it would leave the tree."""
        files = {entry.path for entry in self.entries if entry.kind != "d"}
        check_order((entry.path for entry in self.entries), files)


def _line(entry: Attribute) -> str:
    kept = f"{entry.size_bytes} {entry.digest}" if entry.kind in ("k", "t") else "- -"
    head = f"{entry.kind} {entry.mode:o} {entry.uid} {entry.gid} {entry.mtime_ns}"
    return f"{head} {kept} {path_text(entry.path)}"


def _parse_line(line: str) -> Attribute:
    fields = line.split(" ")
    if len(fields) != 8 or fields[0] not in _KINDS:
        raise FormatError(f"{line!r} is not an attribute line")
    if not (_MODE.fullmatch(fields[1]) and _TIME.fullmatch(fields[4])):
        raise FormatError(f"{line!r} has an impossible mode or time")
    kind = _KINDS[fields[0]]
    path = check_inside(parse_path(fields[7]))
    mode, mtime_ns = int(fields[1], 8), int(fields[4])
    uid, gid = parse_count(fields[2]), parse_count(fields[3])
    if kind in ("k", "t"):
        kept = (parse_count(fields[5]), parse_digest(fields[6]))
        return Attribute(path, kind, mode, uid, gid, mtime_ns, *kept)
    if fields[5:7] != ["-", "-"]:
        raise FormatError(f"{line!r} is not an attribute line")
    return Attribute(path, kind, mode, uid, gid, mtime_ns)
