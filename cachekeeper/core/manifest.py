"""The manifest: which bytes a family consists of. Its digest is the build id.

Format: docs/design/store-format.md. Directories, times, modes, owners and left-out names are no
part of it, so two equal contents have one build id wherever and whenever they were made.
"""

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cachekeeper.core.digests import digest_of, parse_digest
from cachekeeper.core.errors import FormatError
from cachekeeper.core.paths import check_inside, parse_path, path_text

EntryKind = Literal["f", "l"]
_HEADER = "cachekeeper-manifest 1"
_COUNT = re.compile(r"0|[1-9][0-9]{0,19}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file (`f`) or symbolic link (`l`): relative path, size in bytes, content's digest."""

    path: bytes
    kind: EntryKind
    size_bytes: int
    digest: str


@dataclass(frozen=True)
class Manifest:
    """Entries sorted by the bytes of their paths."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Manifest":
        """Return the manifest of entries in any order; raises FormatError for a path twice."""
        manifest = cls(tuple(sorted(entries, key=lambda entry: entry.path)))
        manifest._check()
        return manifest

    @cached_property
    def build_id(self) -> str:
        """Return the digest of the canonical bytes."""
        return digest_of(self.to_bytes())

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all entries together."""
        return sum(entry.size_bytes for entry in self.entries)

    def by_path(self) -> dict[bytes, Entry]:
        """Return the entries by path."""
        return {entry.path: entry for entry in self.entries}

    def to_bytes(self) -> bytes:
        """Return the canonical bytes."""
        lines = [_HEADER]
        lines += [f"{e.kind} {e.size_bytes} {e.digest} {path_text(e.path)}" for e in self.entries]
        return ("\n".join(lines) + "\n").encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> "Manifest":
        """Return the manifest written in `data`; raises FormatError."""
        lines = ascii_lines(data, _HEADER)
        manifest = cls(tuple(_parse_line(line) for line in lines))
        manifest._check()
        return manifest

    def _check(self) -> None:
        paths = [entry.path for entry in self.entries]
        check_order(paths, set(paths))


def ascii_lines(data: bytes, header: str) -> list[str]:
    """Return the lines below `header` of a text that ends with a newline; raises FormatError."""
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        raise FormatError(f"not an ASCII text with the header {header!r}") from error
    first, _, rest = text.partition("\n")
    if first != header or not text.endswith("\n"):
        raise FormatError(f"not a whole text with the header {header!r}")
    return rest.split("\n")[:-1]


def parse_count(text: str) -> int:
    """Return a number written in plain decimal digits, 64 bits at most; raises FormatError."""
    if not _COUNT.fullmatch(text):
        raise FormatError(f"{text!r} is not a plain number")
    return int(text)


def _parse_line(line: str) -> Entry:
    fields = line.split(" ")
    if len(fields) != 4 or fields[0] not in ("f", "l"):
        raise FormatError(f"{line!r} is not a manifest line")
    kind: EntryKind = "f" if fields[0] == "f" else "l"
    path = check_inside(parse_path(fields[3]))
    return Entry(path, kind, parse_count(fields[1]), parse_digest(fields[2]))


def check_order(paths: Iterable[bytes], files: Container[bytes]) -> None:
    """Refuse a path twice, out of order, or below one of `files`; raises FormatError."""
    previous: bytes | None = None
    for path in paths:
        if previous is not None and path <= previous:
            raise FormatError(f"the path {path_text(path)} is out of order or stands twice")
        previous = path
        if any(parent in files for parent in parents(path)):
            raise FormatError(f"the path {path_text(path)} lies below a file")


def parents(path: bytes) -> tuple[bytes, ...]:
    """Return every proper ancestor of a relative path, the tree itself (empty) included."""
    if not path:
        return ()
    parts = path.split(b"/")
    return (b"", *(b"/".join(parts[:count]) for count in range(1, len(parts))))
