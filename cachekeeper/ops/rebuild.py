"""rebuild: the catalogue anew from the records."""

from cachekeeper.catalogue.rows import RebuildCounts
from cachekeeper.keeper.keeper import Keeper


def rebuild(keeper: Keeper) -> RebuildCounts:
    """Make the catalogue anew from the records."""
    with keeper.store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        return keeper.catalogue.rebuild()
