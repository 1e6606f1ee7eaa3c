"""Catching up: records that came are indexed, rows of records that are gone are dropped.

Guarantee: one transaction, so a reader sees all of it or nothing. The indexed set is read before
the listing: a record that another process indexes in between is then in the listing too, and is
never taken for one that is gone.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from cachekeeper.catalogue import writing
from cachekeeper.catalogue.database import Database, View
from cachekeeper.catalogue.fields import storable
from cachekeeper.catalogue.projection import Projection, project
from cachekeeper.catalogue.rows import DamagedRecord
from cachekeeper.catalogue.source import RecordSource
from cachekeeper.catalogue.tables import DAMAGED, RECORD
from cachekeeper.core.errors import DamagedStoreError, FormatError, NewerFormatError
from cachekeeper.core.record import RecordKind

_BATCH = 256  # records in memory at a time

_Name = tuple[RecordKind, str]


@dataclass(frozen=True, slots=True)
class Gap:
    """What separates the index from the records; `damaged` holds the known facts by digest."""

    missing: tuple[_Name, ...]
    damaged: Mapping[str, str]
    gone: frozenset[str]


def catch_up(database: Database, store_id: str, source: RecordSource) -> None:
    """Index what is not indexed; without news nothing is locked or written."""
    with database.reading() as connection:
        gap = _find_gap(View(connection, store_id), source)
    if gap.gone or _has_news(gap, source):
        with database.writing() as connection:
            close_gap(View(connection, store_id), source)


def close_gap(view: View, source: RecordSource) -> None:
    """Make the rows equal to the records, inside the caller's transaction."""
    gap = _find_gap(view, source)
    writing.drop(view, gap.gone)
    writing.drop_damaged(view)
    for batch in _batches(gap.missing):
        found = [_read(source, kind, digest) for kind, digest in batch]
        writing.insert(view, [item for item in found if isinstance(item, Projection)])
        writing.insert_damaged(view, [item for item in found if isinstance(item, DamagedRecord)])


def _find_gap(view: View, source: RecordSource) -> Gap:
    records = sa.select(RECORD.c.digest).where(RECORD.c.store_id == view.store_id)
    indexed = set(view.connection.execute(records).scalars())
    facts = sa.select(DAMAGED.c.digest, DAMAGED.c.fact).where(DAMAGED.c.store_id == view.store_id)
    damaged = {row.digest: row.fact for row in view.connection.execute(facts)}
    listed: dict[str, RecordKind] = {digest: kind for _, kind, digest in sorted(source.names())}
    missing = tuple((kind, digest) for digest, kind in listed.items() if digest not in indexed)
    return Gap(missing, damaged, frozenset((indexed | damaged.keys()) - listed.keys()))


def _has_news(gap: Gap, source: RecordSource) -> bool:
    """Tell whether a missing record is new, or one that was damaged reads otherwise now."""
    if any(digest not in gap.damaged for _, digest in gap.missing):
        return True
    known = [DamagedRecord(kind, digest, gap.damaged[digest]) for kind, digest in gap.missing]
    return known != [_read(source, kind, digest) for kind, digest in gap.missing]


def _read(source: RecordSource, kind: RecordKind, digest: str) -> Projection | DamagedRecord:
    """Return a record's rows, or why there are none: one bad record stops no question."""
    try:
        return project(source.read(kind, digest))
    except (DamagedStoreError, FormatError, NewerFormatError) as error:
        return DamagedRecord(kind, digest, storable(error.fact))


def _batches(names: tuple[_Name, ...]) -> Iterator[tuple[_Name, ...]]:
    iterator = iter(names)
    while batch := tuple(itertools.islice(iterator, _BATCH)):
        yield batch
