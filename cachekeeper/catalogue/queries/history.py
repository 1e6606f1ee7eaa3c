"""What happened: every record as a line, changes of status, and records that cannot be read."""

from typing import Any

import sqlalchemy as sa

from cachekeeper.catalogue.database import View
from cachekeeper.catalogue.fields import storable
from cachekeeper.catalogue.queries.conditions import newest_first
from cachekeeper.catalogue.queries.pins import pins
from cachekeeper.catalogue.rows import DamagedRecord, EventRow, RebuildCounts, StatusRow
from cachekeeper.catalogue.tables import DAMAGED, RECORD, STATUS


def events(view: View, limit: int | None) -> tuple[EventRow, ...]:
    """Return the newest `limit` records, or all."""
    query = (
        sa.select(
            RECORD.c.sequence,
            RECORD.c.at,
            RECORD.c.kind,
            RECORD.c.digest,
            RECORD.c.subject,
            RECORD.c.detail,
            RECORD.c.root,
            RECORD.c.reason,
        )
        .where(RECORD.c.store_id == view.store_id)
        .order_by(*newest_first(RECORD))
        .limit(limit)
    )
    return tuple(EventRow(*row) for row in view.connection.execute(query))


def statuses_of(view: View, target_kind: str, target: str) -> tuple[StatusRow, ...]:
    """Return the changes of status of a pin, build or snapshot."""
    query: sa.Select[Any] = (
        sa.select(
            RECORD.c.digest,
            RECORD.c.sequence,
            RECORD.c.at,
            STATUS.c.ref,
            STATUS.c.target_kind,
            STATUS.c.target,
            STATUS.c.status,
            STATUS.c.previous,
            RECORD.c.reason,
            STATUS.c.evidence,
        )
        .join_from(STATUS, RECORD)
        .where(
            STATUS.c.store_id == view.store_id,
            STATUS.c.target_kind == target_kind,
            STATUS.c.target == storable(target),
        )
        .order_by(*newest_first(RECORD))
    )
    return tuple(StatusRow(*row) for row in view.connection.execute(query))


def damaged(view: View) -> tuple[DamagedRecord, ...]:
    """Return the records that are there but cannot be read."""
    query = (
        sa.select(DAMAGED.c.kind, DAMAGED.c.digest, DAMAGED.c.fact)
        .where(DAMAGED.c.store_id == view.store_id)
        .order_by(DAMAGED.c.kind, DAMAGED.c.digest)
    )
    return tuple(DamagedRecord(*row) for row in view.connection.execute(query))


def rebuild_counts(view: View) -> RebuildCounts:
    """Return how much is indexed."""
    query = (
        sa.select(RECORD.c.kind, sa.func.count().label("number"))
        .where(RECORD.c.store_id == view.store_id)
        .group_by(RECORD.c.kind)
    )
    counts = {row.kind: row.number for row in view.connection.execute(query)}
    return RebuildCounts(
        records=sum(counts.values()),
        snapshots=counts.get("snapshot", 0),
        pins=len(pins(view, include_removed=False)),
        runs=counts.get("run", 0),
    )
