"""Where the catalogue gets records from; `cachekeeper.store` implements it."""

from collections.abc import Iterable
from typing import Protocol

from cachekeeper.core.record import Record, RecordKind


class RecordSource(Protocol):
    """The records of one store."""

    def names(self) -> Iterable[tuple[int, RecordKind, str]]:
        """Yield (sequence, kind, digest) of every record; a cheap listing."""
        ...

    def read(self, kind: RecordKind, digest: str) -> Record:
        """Return a verified record; raises DamagedStoreError, FormatError, NewerFormatError."""
        ...
