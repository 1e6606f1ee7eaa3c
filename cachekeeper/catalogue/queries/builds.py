"""Which contents were seen where, and by which snapshot."""

from typing import Any

import sqlalchemy as sa

from cachekeeper.catalogue.database import View
from cachekeeper.catalogue.queries.conditions import newest_first, starts_with
from cachekeeper.catalogue.rows import BuildRow, ReferencedBuild
from cachekeeper.catalogue.tables import FAMILY, HOLDING, RECORD

_COLUMNS = (
    FAMILY.c.build,
    FAMILY.c.attributes,
    FAMILY.c.root,
    FAMILY.c.kind,
    FAMILY.c.key,
    FAMILY.c.path,
    FAMILY.c.files,
    FAMILY.c.bytes,
    RECORD.c.digest,
    RECORD.c.sequence,
    RECORD.c.at,
)
_NEWEST_FIRST = (*newest_first(RECORD), HOLDING.c.position)


def builds_by_prefix(view: View, prefix: str) -> tuple[BuildRow, ...]:
    """Return each build id that starts with `prefix` once, at the newest place seen."""
    rank = sa.func.row_number().over(partition_by=FAMILY.c.build, order_by=_NEWEST_FIRST)
    seen = _in_snapshots(view, *_COLUMNS, rank.label("rank"))
    ranked = seen.where(starts_with(FAMILY.c.build, prefix)).subquery()
    *columns, rank_column = ranked.c
    query = (
        sa.select(*columns).where(rank_column == 1).order_by(*newest_first(ranked), ranked.c.build)
    )
    return tuple(BuildRow(*row) for row in view.connection.execute(query))


def builds_of_key(view: View, prefix: str, root: str | None) -> tuple[BuildRow, ...]:
    """Return every family of every snapshot whose key starts with `prefix`, in one root or all."""
    query = _in_snapshots(view, *_COLUMNS).where(starts_with(FAMILY.c.key, prefix))
    if root is not None:
        query = query.where(FAMILY.c.root == root)
    return tuple(BuildRow(*row) for row in view.connection.execute(query.order_by(*_NEWEST_FIRST)))


def referenced_builds(view: View) -> tuple[ReferencedBuild, ...]:
    """Return every family of every snapshot with the objects it refers to."""
    columns = (FAMILY.c.build, FAMILY.c.attributes, RECORD.c.digest, FAMILY.c.root, FAMILY.c.path)
    query = _in_snapshots(view, *columns).order_by(*_NEWEST_FIRST)
    return tuple(ReferencedBuild(*row) for row in view.connection.execute(query))


def _in_snapshots(view: View, *columns: "sa.ColumnElement[Any]") -> "sa.Select[Any]":
    """Return a query over the families of snapshots; those of pins hang on other records."""
    return (
        sa.select(*columns)
        .select_from(FAMILY)
        .join(HOLDING, HOLDING.c.family_id == FAMILY.c.id)
        .join(RECORD, RECORD.c.id == HOLDING.c.record_id)
        .where(
            FAMILY.c.store_id == view.store_id,
            RECORD.c.store_id == view.store_id,
            RECORD.c.kind == "snapshot",
        )
    )
