"""Surveying a root: its families with content, health and links, as they stand now."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cachekeeper.core.paths import shown
from cachekeeper.core.problem import Problem
from cachekeeper.inspect.health import check_contents
from cachekeeper.keeper.capture import Captured, CaptureOptions, capture_family
from cachekeeper.keeper.roots import Root
from cachekeeper.layouts.families import FamilyPlace, ScanWarning, find_families
from cachekeeper.layouts.names import Rank, parse_rank
from cachekeeper.layouts.structure import check_structure, check_unit
from cachekeeper.layouts.units import Link, find_links, is_mega

Progress = Callable[[str, int, int], None]


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

    @property
    def place(self) -> FamilyPlace:
        """Return where the family lives."""
        return self.content.place

    @property
    def is_damaged(self) -> bool:
        """Tell whether a file of it is broken."""
        return any(problem.severity == "damaged" for problem in self.problems)

    @property
    def is_incomplete(self) -> bool:
        """Tell whether a rank or a file that should be there is not."""
        return any(problem.severity == "incomplete" for problem in self.problems)


def outline(root: Root) -> Outline:
    """Return what stands in a root, reading only what links need."""
    scan = find_families(root.real)
    return Outline(root, scan.places, find_links(root.real, scan.places), scan.warnings)


def see_family(
    root: Root,
    place: FamilyPlace,
    options: CaptureOptions,
    trusted: Callable[[str], bool],
) -> Seen:
    """Capture one family and check it; `trusted` says which digests are known to be good."""
    top = os.path.join(root.real, place.path)
    content = capture_family(top, place, options)
    digests = {entry.path: entry.digest for entry in content.manifest.entries}
    sizes = [(entry.path, entry.size_bytes) for entry in content.manifest.entries]
    inside = check_contents(top, sizes, trusted=lambda path: trusted(digests[path]))
    found = (*content.problems, *check_structure(root.real, place, sizes), *inside)
    return Seen(content, ranks_of(place, content), found)


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


def family_title(place: FamilyPlace) -> str:
    """Return a family's name for people: kind and key."""
    return f"{place.kind} {shown(place.key.encode()) if place.kind == 'other' else place.key[:10]}"
