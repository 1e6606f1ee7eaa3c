"""The pins, with what later records say about them."""

from collections import defaultdict
from typing import Any

import sqlalchemy as sa

from cachekeeper.catalogue.database import View
from cachekeeper.catalogue.fields import storable
from cachekeeper.catalogue.queries.conditions import newest_first
from cachekeeper.catalogue.rows import PinnedFamily, PinRow
from cachekeeper.catalogue.tables import FAMILY, HOLDING, PIN, RECORD, STATUS, UNPIN


def pins(view: View, *, include_removed: bool) -> tuple[PinRow, ...]:
    """Return the pins, newest first."""
    query = _query(view)
    return _rows(view, query if include_removed else query.where(~_is_removed(view)))


def pin_named(view: View, name: str) -> PinRow | None:
    """Return the newest pin of a name that was not removed."""
    query = _query(view).where(PIN.c.name == storable(name), ~_is_removed(view)).limit(1)
    return next(iter(_rows(view, query)), None)


def _query(view: View) -> "sa.Select[Any]":
    return (
        sa.select(
            RECORD.c.id,
            RECORD.c.digest,
            RECORD.c.sequence,
            RECORD.c.at,
            PIN.c.name,
            PIN.c.key,
            PIN.c.root,
            sa.func.coalesce(_latest_status(view), PIN.c.status).label("status"),
            RECORD.c.reason,
            PIN.c.settled,
            PIN.c.snapshot,
            _is_removed(view).label("removed"),
        )
        .join_from(RECORD, PIN)
        .where(PIN.c.store_id == view.store_id)
        .order_by(*newest_first(RECORD))
    )


def _latest_status(view: View) -> "sa.ScalarSelect[str]":
    change = RECORD.alias("change")
    return (
        sa.select(STATUS.c.status)
        .join_from(STATUS, change)
        .where(
            STATUS.c.store_id == view.store_id,
            STATUS.c.target_kind == "pin",
            STATUS.c.target == RECORD.c.digest,
        )
        .order_by(*newest_first(change))
        .limit(1)
        .correlate(RECORD)
        .scalar_subquery()
    )


def _is_removed(view: View) -> "sa.Exists":
    return sa.exists(
        sa.select(UNPIN.c.record_id)
        .where(UNPIN.c.store_id == view.store_id, UNPIN.c.pin == RECORD.c.digest)
        .correlate(RECORD)
    )


def _rows(view: View, query: "sa.Select[Any]") -> tuple[PinRow, ...]:
    families = _families(view)
    found = (row._asdict() for row in view.connection.execute(query))
    return tuple(PinRow(families=families[row.pop("id")], **row) for row in found)


def _families(view: View) -> dict[int, tuple[PinnedFamily, ...]]:
    """Return the families of all pins by record id, in the order of the unit: pins are few."""
    query = (
        sa.select(
            PIN.c.record_id,
            FAMILY.c.kind,
            FAMILY.c.key,
            FAMILY.c.path,
            FAMILY.c.build,
            FAMILY.c.attributes,
        )
        .join_from(PIN, HOLDING, HOLDING.c.record_id == PIN.c.record_id)
        .join(FAMILY)
        .where(PIN.c.store_id == view.store_id)
        .order_by(PIN.c.record_id, HOLDING.c.position)
    )
    found: dict[int, tuple[PinnedFamily, ...]] = defaultdict(tuple)
    for record_id, *family in view.connection.execute(query):
        found[record_id] += (PinnedFamily(*family),)
    return found
