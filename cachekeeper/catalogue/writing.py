"""Writing and dropping the rows of records, in bulk, inside the caller's transaction."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from cachekeeper.catalogue.database import View
from cachekeeper.catalogue.projection import Columns, HeldFamily, Projection
from cachekeeper.catalogue.rows import DamagedRecord
from cachekeeper.catalogue.tables import (
    DAMAGED,
    FACTS,
    FAMILY,
    HOLDING,
    PARTS,
    RECORD,
    REMEMBERED,
)

_Numbered = Sequence[tuple[int, Projection]]
_BUILDS_ASKED = 500  # in one statement; SQLite before 3.32 takes 999 parameters


def insert(view: View, projections: Iterable[Projection]) -> None:
    """Write the rows of many records, one statement a table."""
    last = view.connection.execute(sa.select(sa.func.max(RECORD.c.id))).scalar() or 0
    numbered = list(enumerate(projections, last + 1))
    rows: dict[sa.Table, list[Columns]] = defaultdict(list)
    for number, projection in numbered:
        rows[RECORD].append({"id": number, "store_id": view.store_id, **projection.event})
        for name, columns in projection.facts:
            rows[FACTS[name]].append({"record_id": number, "store_id": view.store_id, **columns})
    for target, of_target in rows.items():
        view.connection.execute(sa.insert(target), of_target)
    _insert_holdings(view, numbered)


def _insert_holdings(view: View, numbered: _Numbered) -> None:
    """Write each family with its content once, then which records hold it."""
    distinct = tuple({family for _, projection in numbered for family in projection.families})
    if not distinct:
        return
    families = [{"store_id": view.store_id, **family._asdict()} for family in distinct]
    view.connection.execute(sqlite.insert(FAMILY).on_conflict_do_nothing(), families)
    ids = _family_ids(view, distinct)
    holdings = [
        {"record_id": number, "position": position, "family_id": ids[family]}
        for number, projection in numbered
        for position, family in enumerate(projection.families)
    ]
    view.connection.execute(sa.insert(HOLDING), holdings)


def _family_ids(view: View, families: Iterable[HeldFamily]) -> dict[HeldFamily, int]:
    """Return the ids of families that are there, and of others with the same builds."""
    builds = sorted({family.build for family in families})
    columns = (FAMILY.c[name] for name in HeldFamily._fields)
    query = sa.select(FAMILY.c.id, *columns).where(FAMILY.c.store_id == view.store_id)
    found: dict[HeldFamily, int] = {}
    for start in range(0, len(builds), _BUILDS_ASKED):
        asked = FAMILY.c.build.in_(builds[start : start + _BUILDS_ASKED])
        for number, *content in view.connection.execute(query.where(asked)):
            found[HeldFamily(*content)] = number
    return found


def insert_damaged(view: View, damaged: Iterable[DamagedRecord]) -> None:
    """Remember which records could not be read, and why."""
    rows = [{"store_id": view.store_id, **record._asdict()} for record in damaged]
    if rows:
        view.connection.execute(sa.insert(DAMAGED), rows)


def drop(view: View, digests: Iterable[str]) -> None:
    """Remove all rows of some records; a family that nothing holds any more is seen by no query."""
    own = RECORD.c.store_id == view.store_id, RECORD.c.digest == sa.bindparam("of_digest")
    ids = sa.select(RECORD.c.id).where(*own).scalar_subquery()
    rows = [{"of_digest": digest} for digest in digests]
    if not rows:
        return
    for table in PARTS:
        view.connection.execute(sa.delete(table).where(table.c.record_id == ids), rows)
    view.connection.execute(sa.delete(RECORD).where(*own), rows)


def drop_damaged(view: View) -> None:
    """Forget which records could not be read."""
    view.connection.execute(sa.delete(DAMAGED).where(DAMAGED.c.store_id == view.store_id))


def drop_everything(view: View) -> None:
    """Remove every row of the store, remembered digests too."""
    ids = sa.select(RECORD.c.id).where(RECORD.c.store_id == view.store_id)
    for part in PARTS:
        view.connection.execute(sa.delete(part).where(part.c.record_id.in_(ids)))
    for table in (RECORD, FAMILY, DAMAGED, REMEMBERED):
        view.connection.execute(sa.delete(table).where(table.c.store_id == view.store_id))
