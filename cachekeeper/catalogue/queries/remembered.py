"""Remembered digests of live files: opaque bytes of the caller, one value a family of a root.

No record holds them: they save reading and are lost with the catalogue.
"""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from cachekeeper.catalogue.database import View
from cachekeeper.catalogue.tables import REMEMBERED


def remembered(view: View, root: str, family: str) -> bytes | None:
    """Return what was remembered last for a family."""
    query = sa.select(REMEMBERED.c.content).where(
        REMEMBERED.c.store_id == view.store_id,
        REMEMBERED.c.root == root,
        REMEMBERED.c.family == family,
    )
    return view.connection.execute(query).scalar()


def remember(view: View, root: str, items: Mapping[str, bytes]) -> None:
    """Replace what is remembered for some families; those of no item keep theirs."""
    place = {"store_id": view.store_id, "root": root}
    rows = [{**place, "family": family, "content": data} for family, data in items.items()]
    insert = sqlite.insert(REMEMBERED)
    replace = insert.on_conflict_do_update(
        index_elements=["store_id", "root", "family"], set_={"content": insert.excluded.content}
    )
    view.connection.execute(replace, rows)
