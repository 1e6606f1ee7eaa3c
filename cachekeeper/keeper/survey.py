"""Surveying a root: its families with content, health and links, as they stand now."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cachekeeper.core.problem import Problem
from cachekeeper.inspect.health import check_contents
from cachekeeper.keeper.capture import Captured, CaptureOptions, capture_family
from cachekeeper.keeper.memory import Health
from cachekeeper.keeper.roots import Root
from cachekeeper.layouts.families import FamilyPlace, ScanWarning, find_families
from cachekeeper.layouts.listing import SmallFileReader, read_small
from cachekeeper.layouts.names import Rank, parse_rank
from cachekeeper.layouts.structure import check_structure, check_unit
from cachekeeper.layouts.units import Link, find_links, is_mega

Progress = Callable[[str, int, int], None]
# Problems that may come and go without a change of the family.
_DEPENDS_ON_OTHERS = frozenset({"foreign-path", "unreadable-index"})


@dataclass(frozen=True)
class Outline:
    """What stands in a root by names alone: places, links with their evidence, warnings."""

    root: Root
    places: tuple[FamilyPlace, ...]
    links: tuple[Link, ...]
    warnings: tuple[ScanWarning, ...]

    def unit_places(self, aot_key: str) -> tuple[FamilyPlace, ...]:
        """Return the places of a unit: its aot family first, then its compile partners."""
        partners = {link.compile for link in self.links if link.aot == aot_key}
        own = [p for p in self.places if p.kind == "aot" and p.key == aot_key]
        return (*own, *(p for p in self.places if p.kind == "compile" and p.key in partners))

    def unit_links(self, aot_key: str) -> tuple[Link, ...]:
        """Return the links of a unit."""
        return tuple(link for link in self.links if link.aot == aot_key)

    def units_of(self, place: FamilyPlace) -> tuple[str, ...]:
        """Return the keys of the units that a family belongs to."""
        if place.kind == "aot":
            return (place.key,)
        return tuple(sorted({link.aot for link in self.links if link.compile == place.key}))


@dataclass(frozen=True)
class Seen:
    """One family as it was captured, with its ranks and everything that is wrong with it."""

    content: Captured
    ranks: tuple[str, ...]
    problems: tuple[Problem, ...]
    health: Health | None = None

    @property
    def place(self) -> FamilyPlace:
        """Return where the family lives."""
        return self.content.place


def outline(root: Root, read: SmallFileReader = read_small) -> Outline:
    """Return what stands in a root, reading only what links need; nothing where it is gone."""
    if not os.path.isdir(root.real):
        return Outline(root, (), (), ())
    scan = find_families(root.real)
    links = find_links(root.real, scan.places, read)
    return Outline(root, scan.places, links, scan.warnings)


def see_family(
    root: Root,
    place: FamilyPlace,
    options: CaptureOptions,
    known: Health | None = None,
) -> Seen:
    """Capture one family and check it; nothing is read again where its content is `known`."""
    top = os.path.join(root.real, place.path)
    content = capture_family(top, place, options)
    sizes = [(entry.path, entry.size_bytes) for entry in content.manifest.entries]
    build, attributes = content.manifest.build_id, content.attributes.digest
    if known is None or (known.build, known.attributes) != (build, attributes):
        inside = check_contents(top, sizes)
        health = Health(build, attributes, check_structure(root.real, place, sizes), inside)
    elif any(problem.code in _DEPENDS_ON_OTHERS for problem in known.structure):
        health = replace(known, structure=check_structure(root.real, place, sizes))
    else:
        health = known
    found = (*content.problems, *health.structure, *health.inside)
    return Seen(content, ranks_of(place, content), found, health)


def see_unit(root: Root, seen: Iterable[Seen]) -> tuple[Seen, ...]:
    """Return a unit's families with what is wrong between them added to the aot family."""
    families = tuple(seen)
    partners = [
        (one.place.key, rank_values(one.ranks), is_mega(root.real, one.place))
        for one in families
        if one.place.kind == "compile"
    ]
    return tuple(
        replace(one, problems=(*one.problems, *check_unit(rank_values(one.ranks), partners)))
        if one.place.kind == "aot"
        else one
        for one in families
    )


def rank_values(names: Iterable[str]) -> tuple[Rank, ...]:
    """Return the ranks that directory names give."""
    return tuple(rank for name in names if (rank := parse_rank(name)) is not None)


def ranks_of(place: FamilyPlace, content: Captured) -> tuple[str, ...]:
    """Return the names of the rank directories in a family, in rank order."""
    if place.kind == "other":
        return ()
    tops = {
        attribute.path.decode("ascii", "replace")
        for attribute in content.attributes.entries
        if attribute.kind == "d" and attribute.path and b"/" not in attribute.path
    }
    ranks = [(parsed, name) for name in tops if (parsed := parse_rank(name)) is not None]
    return tuple(name for _rank, name in sorted(ranks, key=lambda pair: (pair[0].rank, pair[1])))


def no_progress(_what: str, _done: int, _total: int) -> None:
    """Show nothing."""
