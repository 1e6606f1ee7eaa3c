"""Which snapshots there are, and which links they recorded."""

import sqlalchemy as sa

from cachekeeper.catalogue.database import View
from cachekeeper.catalogue.queries.conditions import newest_first, starts_with
from cachekeeper.catalogue.rows import LinkRow, SnapshotRow
from cachekeeper.catalogue.tables import LINK, RECORD, SNAPSHOT


def snapshots(view: View, prefix: str = "") -> tuple[SnapshotRow, ...]:
    """Return the snapshots whose record digest starts with `prefix`."""
    query = (
        sa.select(
            RECORD.c.digest,
            RECORD.c.sequence,
            RECORD.c.at,
            RECORD.c.reason,
            SNAPSHOT.c.message,
            SNAPSHOT.c.bytes,
            SNAPSHOT.c.families,
        )
        .join_from(RECORD, SNAPSHOT)
        .where(RECORD.c.store_id == view.store_id, starts_with(RECORD.c.digest, prefix))
        .order_by(*newest_first(RECORD))
    )
    return tuple(SnapshotRow(*row) for row in view.connection.execute(query))


def links_of(view: View, root: str, aot_key: str) -> tuple[LinkRow, ...]:
    """Return every link of an aot family that a snapshot of the root recorded."""
    query = (
        sa.select(
            LINK.c.root,
            LINK.c.aot,
            LINK.c.compile,
            LINK.c.source,
            LINK.c.detail,
            RECORD.c.digest,
            RECORD.c.sequence,
            RECORD.c.at,
        )
        .join_from(LINK, RECORD)
        .where(LINK.c.store_id == view.store_id, LINK.c.root == root, LINK.c.aot == aot_key)
        .order_by(*newest_first(RECORD), LINK.c.position)
    )
    return tuple(LinkRow(*row) for row in view.connection.execute(query))
