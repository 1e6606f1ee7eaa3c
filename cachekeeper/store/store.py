"""A store: one private directory of objects and records, made on first write.

Guarantee: `format.json` is written last when a store is made, so a directory that has one is whole.
Only this package writes below the store's directory, through `cachekeeper.fs`.
"""

import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from cachekeeper.core.digests import ALGORITHM
from cachekeeper.core.errors import (
    BusyError,
    DamagedStoreError,
    IoError,
    NewerFormatError,
    UsageError,
)
from cachekeeper.core.paths import shown
from cachekeeper.fs import primitives
from cachekeeper.fs.atomic import ensure_directory, write_new_file
from cachekeeper.fs.locks import range_lock
from cachekeeper.fs.reading import read_small
from cachekeeper.store.objects import Objects
from cachekeeper.store.records import Records

STORE_FORMAT = 1
_USE_BYTE = 0  # shared: snapshot, pin, restore; exclusive: garbage collection
_FORMAT_LIMIT = 64 * 1024
_TEMPORARY = re.compile(rb"(?:object|record|README|format\.json)\.[0-9a-f]{32}")
_README = b"""This directory belongs to cachekeeper. It keeps compiled vLLM artifacts and may hold
the only copy of something that cannot be rebuilt: do not delete it, do not tag it as a cache.

objects/ab/cdef...   raw bytes, named by their BLAKE3 digest (check them with b3sum)
records/             immutable facts: snapshots, pins, statuses, restores
catalogue.sqlite     an index of the records; may be deleted

To mirror it, copy records/ first and objects/ after them: what a record names was there before it.
"""


@dataclass(frozen=True)
class Store:
    """An open store: its directory, its id, its objects and its records."""

    path: bytes
    store_id: str
    objects: Objects
    records: Records

    @property
    def catalogue_path(self) -> bytes:
        """Return where the index of the records lies."""
        return os.path.join(self.path, b"catalogue.sqlite")

    @contextmanager
    def in_use(self, *, exclusive: bool = False, timeout_s: float) -> Iterator[None]:
        """Hold the store: shared for all that adds, exclusively for all that removes."""
        self._clear_temporaries()
        with range_lock(self._lock, _USE_BYTE, exclusive=exclusive, timeout_s=timeout_s):
            yield

    @property
    def _lock(self) -> bytes:
        return os.path.join(self.path, b"lock")

    def _clear_temporaries(self) -> None:
        """Remove what killed processes left in `tmp`; make it anew in a mirror, which has none.

        Whoever writes there holds the store, so whoever holds it alone finds only what the dead
        left: in every container and on every host that shares the store, unlike a process id.
        """
        tmp = os.path.join(self.path, b"tmp")
        with suppress(OSError, BusyError):  # a store that cannot be written, or one in use
            ensure_directory(tmp, 0o700)
            if not _temporaries(tmp):
                return
            with range_lock(self._lock, _USE_BYTE, exclusive=True, timeout_s=0):
                for path in _temporaries(tmp):
                    primitives.remove_file(path)


def store_exists(path: bytes) -> bool:
    """Tell whether a store lies at `path`; raises IoError where that may not be seen."""
    try:
        os.stat(os.path.join(path, b"format.json"))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise IoError(
            f"cannot look into {shown(path)}: {error.strerror}", "run as the store's owner"
        ) from error
    return True


def open_store(path: bytes) -> Store:
    """Return the store at `path`; raises UsageError, NewerFormatError, DamagedStoreError."""
    if not store_exists(path):
        raise UsageError(
            f"there is no store at {shown(path)}",
            "name it with --store or CACHEKEEPER_STORE; cachekeeper snapshot makes one",
        )
    store_id = _read_format(path)
    return Store(path, store_id, Objects(path), Records(path, store_id))


def create_store(path: bytes) -> Store:
    """Return the store at `path`, made if need be; raises UsageError for a foreign directory."""
    if store_exists(path):
        return open_store(path)
    try:
        ensure_directory(path, 0o700)
        names = set(os.listdir(path))
        if store_exists(path):  # made by another process since
            return open_store(path)
        _refuse_foreign(path, names)
        primitives.set_attributes(path, 0o700, _owner(path), os.stat(path).st_mtime_ns)
        _fill(path)
    except OSError as error:
        raise IoError(
            f"cannot make a store at {shown(path)}: {error.strerror}",
            "give --store a directory that can be written",
        ) from error
    return open_store(path)


def _refuse_foreign(path: bytes, names: set[bytes]) -> None:
    """Refuse a directory that is neither empty nor a store that was begun; raises UsageError."""
    if b"records" in names and os.listdir(os.path.join(path, b"records")):
        raise DamagedStoreError(
            f"{shown(path)} is a store that has lost its format.json",
            "put it back from a mirror; the objects and records are as they were",
        )
    if names - {b"tmp", b"objects", b"records", b"README", b"lock"}:
        raise UsageError(
            f"{shown(path)} is not a cachekeeper store and is not empty",
            "give --store an empty or new directory",
        )


def _fill(path: bytes) -> None:
    """Make the parts of a store; another process may be doing the same."""
    for part in (b"tmp", b"objects", b"records"):
        ensure_directory(os.path.join(path, part), 0o700)
    with range_lock(os.path.join(path, b"lock"), _USE_BYTE, exclusive=True, timeout_s=60):
        if store_exists(path):
            return
        _write(path, b"README", _README)
        whole = {"format": STORE_FORMAT, "digest": ALGORITHM, "store": uuid.uuid4().hex}
        _write(path, b"format.json", (json.dumps(whole) + "\n").encode("ascii"))


def _temporaries(tmp: bytes) -> list[bytes]:
    return [os.path.join(tmp, name) for name in os.listdir(tmp) if _TEMPORARY.fullmatch(name)]


def _write(path: bytes, name: bytes, data: bytes) -> None:
    temporary = os.path.join(path, b"tmp", name + b"." + uuid.uuid4().hex.encode())
    write_new_file(os.path.join(path, name), temporary, data)


def _read_format(path: bytes) -> str:
    """Return the store's id; a newer format is refused before anything else is read."""
    where = os.path.join(path, b"format.json")
    try:
        whole = json.loads(read_small(where, _FORMAT_LIMIT))
        number, algorithm, store_id = whole["format"], whole["digest"], whole["store"]
    except OSError as error:
        raise IoError(
            f"cannot read {shown(where)}: {error.strerror}", "run as the store's owner"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedStoreError(
            f"{shown(where)} is not a store's format file",
            "put it back from a mirror; the objects and records are as they were",
        ) from error
    if not isinstance(number, int) or number > STORE_FORMAT or algorithm != ALGORITHM:
        raise NewerFormatError(
            f"the store at {shown(path)} has format {number} ({algorithm}), "
            f"this cachekeeper knows format {STORE_FORMAT} ({ALGORITHM})",
            "upgrade cachekeeper; nothing was changed",
        )
    return str(store_id)


def _owner(path: bytes) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_uid, status.st_gid
