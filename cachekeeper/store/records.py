"""Records: immutable facts, one file each, numbered under the record lock.

Guarantee: a record is written last, after everything it names is durable; it appears whole or not
at all. Nobody ever changes one.
"""

import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cachekeeper.core.clock import utc_text
from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import DamagedStoreError, FormatError
from cachekeeper.core.paths import shown
from cachekeeper.core.record import RECORD_KINDS, Record, RecordKind, parse_record, record_bytes
from cachekeeper.fs.atomic import ensure_directory, write_new_file
from cachekeeper.fs.locks import range_lock
from cachekeeper.fs.reading import read_small

_RECORD_BYTE = 1
_LIMIT_BYTES = 256 << 20
_NAME = re.compile(rb"([0-9]{12})-([0-9a-f]{64})\.json")
_LOCK_TIMEOUT_S = 60.0


class Records:
    """The records of the store at `store`; the catalogue's RecordSource."""

    def __init__(self, store: bytes, store_id: str) -> None:
        self._top = os.path.join(store, b"records")
        self._tmp = os.path.join(store, b"tmp")
        self._lock = os.path.join(store, b"lock")
        self._store_id = store_id
        self._seen: dict[tuple[RecordKind, str], bytes] = {}

    def names(self) -> Iterator[tuple[int, RecordKind, str]]:
        """Yield (sequence, kind, digest) of every record by listing names alone."""
        for kind in RECORD_KINDS:
            try:
                listing = os.listdir(os.path.join(self._top, kind.encode("ascii")))
            except FileNotFoundError:
                continue
            for name in listing:
                match = _NAME.fullmatch(name)
                if match:
                    yield int(match[1]), kind, match[2].decode("ascii")

    def path(self, kind: RecordKind, digest: str) -> bytes:
        """Return the file of a record; raises DamagedStoreError where there is none."""
        if (kind, digest) not in self._seen:
            self._seen = {(k, d): self._file(k, s, d) for s, k, d in self.names()}
        if (kind, digest) not in self._seen:
            raise DamagedStoreError(
                f"the {kind} record {digest[:16]} is missing", "a mirror of the store may have it"
            )
        return self._seen[kind, digest]

    def read(self, kind: RecordKind, digest: str) -> Record:
        """Return a record, verified by its digest; raises DamagedStoreError, FormatError."""
        path = self.path(kind, digest)
        try:
            data = read_small(path, _LIMIT_BYTES)
        except OSError as error:
            raise DamagedStoreError(
                f"the record {shown(path)} cannot be read: {error.strerror}",
                "a mirror of the store may have it",
            ) from error
        if digest_of(data) != digest:
            raise DamagedStoreError(
                f"the record {shown(path)} is not what its name says",
                "a mirror of the store may have it",
            )
        record = parse_record(data)
        if record.kind != kind:
            raise FormatError(f"the record {shown(path)} is a {record.kind}, not a {kind}")
        return record

    def append(
        self,
        kind: RecordKind,
        body: Mapping[str, Any],
        guard: Callable[[], None] = lambda: None,
    ) -> Record:
        """Write a new record with the next sequence number; all it names must be durable.

        `guard` may refuse by raising: no other record comes between its look and this one.
        """
        with range_lock(self._lock, _RECORD_BYTE, exclusive=True, timeout_s=_LOCK_TIMEOUT_S):
            guard()
            sequence = 1 + max((number for number, _kind, _digest in self.names()), default=0)
            data = record_bytes(kind, sequence, utc_text(time.time()), self._store_id, body)
            record = parse_record(data)
            ensure_directory(os.path.join(self._top, kind.encode("ascii")), 0o700)
            temporary = os.path.join(self._tmp, b"record." + uuid.uuid4().hex.encode("ascii"))
            write_new_file(self._file(kind, sequence, record.digest), temporary, data)
        return record

    def _file(self, kind: RecordKind, sequence: int, digest: str) -> bytes:
        name = f"{sequence:012d}-{digest}.json".encode("ascii")
        return os.path.join(self._top, kind.encode("ascii"), name)
