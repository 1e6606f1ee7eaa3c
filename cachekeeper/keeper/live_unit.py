"""Which unit a hash prefix leads to in what stands in the roots now."""

from cachekeeper.core.errors import UnknownReferenceError, UsageError
from cachekeeper.core.paths import shown
from cachekeeper.core.references import is_prefix, nearest, only_match, parse_reference
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.survey import Outline, outline


def find_live_unit(keeper: Keeper, text: str) -> tuple[Outline, str]:
    """Return the root's outline and the unit key that a hash prefix leads to in what is live."""
    reference = parse_reference(text)
    if reference.kind not in ("name", "live"):
        raise UsageError(f"{text!r} does not name what stands in a root", "give a graph hash")
    prefix = reference.text
    sights = [outline(root) for root in keeper.roots()]
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
        near = nearest(prefix, known)
        hint = f"did you mean {' or '.join(near)}?" if near else "cachekeeper scan lists the hashes"
        raise UnknownReferenceError(f"no family {prefix!r} stands in the root", hint)
    return units[only_match(prefix, units, known)]
