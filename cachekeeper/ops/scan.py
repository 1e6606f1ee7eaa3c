"""scan: the families and units in the roots, with their drift against the pins."""

from dataclasses import dataclass

from cachekeeper.core.drift import Drift
from cachekeeper.core.paths import shown
from cachekeeper.core.problem import Problem
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily, place_of
from cachekeeper.keeper.live import Looker, compare_unit, outline_of, pinned_paths
from cachekeeper.keeper.recovery import try_recover
from cachekeeper.keeper.resolve import pin_content, unreadable_pins
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import Outline
from cachekeeper.layouts.families import FamilyPlace


@dataclass(frozen=True)
class ScannedFamily:
    """One family as it stands; `build` is None and `drift` is `gone` where only a pin knows it."""

    place: FamilyPlace
    ranks: tuple[str, ...]
    files: int
    size_bytes: int
    build: str | None
    units: tuple[str, ...]
    pins: tuple[str, ...]
    drift: Drift | None
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class ScannedRoot:
    """One root with its families, links and what looked odd or is unfinished."""

    root: Root
    outline: Outline
    families: tuple[ScannedFamily, ...]
    warnings: tuple[str, ...]


def scan(keeper: Keeper) -> tuple[ScannedRoot, ...]:
    """Return what stands in every root; raises UsageError, BusyError."""
    pinned = {pin.root for pin in keeper.catalogue.pins()} if keeper.has_store else set()
    return tuple(_scan_root(keeper, root) for root in keeper.roots(pinned))


def _scan_root(keeper: Keeper, root: Root) -> ScannedRoot:
    unfinished = try_recover(keeper, root)
    with keeper.reading(root):
        sight = outline_of(keeper, root)
        looker = Looker(keeper, sight, pinned_paths(keeper, root))
        seen = {}
        for number, place in enumerate(sight.places):
            keeper.settings.progress(f"scanning {shown(root.real)}", number, len(sight.places))
            seen[place.path] = looker.see(place)
        drifts, names, gone = _drifts(keeper, looker)
        unreadable = unreadable_pins(keeper) if keeper.has_store else ()
        looker.remember()
    families = [
        ScannedFamily(
            place=place,
            ranks=seen[place.path].ranks,
            files=len(seen[place.path].content.manifest.entries),
            size_bytes=seen[place.path].content.manifest.size_bytes,
            build=seen[place.path].content.manifest.build_id,
            units=sight.units_of(place),
            pins=names.get(place.path, ()),
            drift=drifts.get(place.path),
            problems=seen[place.path].problems,
        )
        for place in sight.places
    ]
    warnings = [f"{shown(w.path) or '.'}: {w.detail} ({w.code})" for w in sight.warnings]
    return ScannedRoot(root, sight, (*families, *gone), (*unfinished, *unreadable, *warnings))


def _drifts(
    keeper: Keeper, looker: Looker
) -> tuple[dict[bytes, Drift], dict[bytes, tuple[str, ...]], tuple[ScannedFamily, ...]]:
    """Return each pinned family's drift and pins by path, and rows for those that are gone."""
    drifts: dict[bytes, Drift] = {}
    names: dict[bytes, tuple[str, ...]] = {}
    gone: dict[bytes, ScannedFamily] = {}
    if not keeper.has_store:
        return drifts, names, ()
    for pin in keeper.catalogue.pins():  # newest first: a newer pin's drift stands
        if pin.root != looker.root.identity:
            continue
        for one in compare_unit(looker, pin_content(keeper, pin)).families:
            path = one.family.path
            names[path] = (*names.get(path, ()), pin.name)
            drifts.setdefault(path, one.drift)
            if one.seen is None:
                gone[path] = _gone_family(one.family, pin.key, names[path])
    return drifts, names, tuple(gone.values())


def _gone_family(family: KeptFamily, unit: str, pins: tuple[str, ...]) -> ScannedFamily:
    return ScannedFamily(place_of(family), (), 0, 0, None, (unit,), pins, "gone", ())
