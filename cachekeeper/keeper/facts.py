"""Turning what was captured into what a record says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cachekeeper.core.paths import path_below, path_text
from cachekeeper.core.problem import Problem
from cachekeeper.keeper.capture import Captured
from cachekeeper.keeper.kept import KeptFamily, broken_codes, links_to_json
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import Seen
from cachekeeper.layouts.units import Link
from cachekeeper.store.store import Store


@dataclass(frozen=True)
class RootFacts:
    """What a snapshot record says of one root."""

    root: Root
    families: tuple[KeptFamily, ...]
    links: tuple[Link, ...]


def keep_family(
    store: Store, content: Captured, ranks: tuple[str, ...], problems: Iterable[Problem]
) -> KeptFamily:
    """Store a captured family's manifest and attributes and return what a record says of it."""
    store.objects.put_bytes(content.manifest.to_bytes())
    store.objects.put_bytes(content.attributes.to_bytes())
    return _family(content, ranks, problems)


def keep_seen(store: Store, seen: Seen) -> KeptFamily:
    """Store a surveyed family's lists and return what a record says of it."""
    return keep_family(store, seen.content, seen.ranks, seen.problems)


def seen_family(seen: Seen) -> KeptFamily:
    """Return what a record would say of a surveyed family, storing nothing."""
    return _family(seen.content, seen.ranks, seen.problems)


def _family(content: Captured, ranks: tuple[str, ...], problems: Iterable[Problem]) -> KeptFamily:
    place, manifest = content.place, content.manifest
    return KeptFamily(
        kind=place.kind,
        key=place.key,
        path=place.path,
        build=manifest.build_id,
        attributes=content.attributes.digest,
        files=len(manifest.entries),
        size_bytes=manifest.size_bytes,
        ranks=ranks,
        problems=broken_codes(problems),
    )


def snapshot_body(
    reason: str, message: str | None, roots: Iterable[RootFacts], origin: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a snapshot record."""
    return {
        "reason": reason,
        "message": message,
        "roots": [
            {
                "path": facts.root.identity,
                "given": path_text(facts.root.given),
                "families": [family.to_json() for family in facts.families],
                "links": links_to_json(facts.links),
            }
            for facts in roots
        ],
        "origin": dict(origin),
    }


@dataclass(frozen=True, slots=True)
class FoundProblem:
    """A problem with the root and the family (its path in the root) it was found in."""

    root: Root
    place: bytes
    problem: Problem

    @property
    def path(self) -> bytes:
        """Return the path in the root."""
        return path_below(self.place, self.problem.path)


def problems_in(root: Root, seen: Iterable[Seen]) -> tuple[FoundProblem, ...]:
    """Return the problems of some families of a root."""
    return tuple(FoundProblem(root, one.place.path, p) for one in seen for p in one.problems)
