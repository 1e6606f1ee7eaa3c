"""pins: all pins, and how far what stands has drifted from them."""

from cachekeeper.catalogue.rows import PinRow
from cachekeeper.core.drift import Drift
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live import Looker, compare_unit, outline_of, pinned_paths
from cachekeeper.keeper.recovery import try_recover
from cachekeeper.keeper.resolve import pin_content
from cachekeeper.keeper.roots import absent_root


def pin_rows(keeper: Keeper) -> tuple[PinRow, ...]:
    """Return all pins, newest first; a store that is not made yet has none; raises UsageError."""
    return () if keeper.is_new else keeper.catalogue.pins()


def pin_drifts(keeper: Keeper) -> dict[str, Drift]:
    """Return the drift of each pin whose root is at hand, by the pin record's digest."""
    drifts: dict[str, Drift] = {}
    for root in map(absent_root, keeper.settings.roots):
        mine = [pin for pin in keeper.catalogue.pins() if pin.root == root.identity]
        if not mine:
            continue
        keeper.notices.extend(try_recover(keeper, root))
        with keeper.reading(root):
            looker = Looker(keeper, outline_of(keeper, root), pinned_paths(keeper, root))
            for pin in mine:
                drifts[pin.digest] = compare_unit(looker, pin_content(keeper, pin)).drift
    return drifts
