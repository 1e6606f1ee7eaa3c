"""Which unit a hash prefix leads to in what stands in the roots now, and what it holds."""

from cachekeeper.core.errors import UnknownReferenceError, UsageError
from cachekeeper.core.paths import shown
from cachekeeper.core.references import is_prefix, nearest_hint, only_match, parse_reference
from cachekeeper.keeper.facts import seen_family
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live import Looker, outline_of, pinned_paths
from cachekeeper.keeper.recovery import try_recover
from cachekeeper.keeper.resolve import Content
from cachekeeper.keeper.survey import Outline, Seen


def find_live_unit(keeper: Keeper, text: str) -> tuple[Outline, str]:
    """Return the root's outline and the unit key that a hash prefix leads to in what is live."""
    reference = parse_reference(text)
    if reference.kind not in ("name", "live"):
        raise UsageError(f"{text!r} does not name what stands in a root", "give a graph hash")
    prefix = reference.text
    sights = []
    for root in keeper.roots():
        keeper.notices.extend(try_recover(keeper, root))
        sights.append(outline_of(keeper, root))
    units: dict[str, tuple[Outline, str]] = {}
    known: set[str] = set()
    for sight in sights:
        for place in sight.places:
            if place.kind == "other":
                continue
            known.add(place.key)
            if is_prefix(prefix) and place.key.startswith(prefix):
                for unit in sight.units_of(place) or (place.key,):
                    where = f" in {shown(sight.root.real)}" if len(sights) > 1 else ""
                    units[f"{unit}{where}"] = (sight, unit)
    if not units:
        hint = nearest_hint(prefix, known, "cachekeeper scan lists the hashes")
        raise UnknownReferenceError(f"no family {prefix!r} stands in the root", hint)
    return units[only_match(prefix, units, known)]


def see_live_unit(keeper: Keeper, text: str) -> tuple[Outline, str, tuple[Seen, ...]]:
    """Return the root's outline, the key and the families of the live unit that `text` names."""
    sight, key = find_live_unit(keeper, text)
    places = sight.unit_places(key) or tuple(p for p in sight.places if p.key == key)
    with keeper.reading(sight.root):
        looker = Looker(keeper, sight, pinned_paths(keeper, sight.root))
        seen = looker.see_unit(places)
        looker.remember()
    return sight, key, seen


def live_content(keeper: Keeper, text: str) -> Content:
    """Return what stands in the root as content; nothing of it is stored."""
    sight, key, seen = see_live_unit(keeper, text)
    families = tuple(map(seen_family, seen))
    links = sight.unit_links(key)
    return Content(f"live:{key[:8]}", "live", key, sight.root.identity, families, links, exact=True)
