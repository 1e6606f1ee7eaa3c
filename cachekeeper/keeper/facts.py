"""Turning what was captured into what a record says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cachekeeper.core.paths import path_text, shown
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
    build = store.objects.put_bytes(content.manifest.to_bytes()).digest
    attributes = store.objects.put_bytes(content.attributes.to_bytes()).digest
    place = content.place
    return KeptFamily(
        kind=place.kind,
        key=place.key,
        path=place.path,
        build=build,
        attributes=attributes,
        files=len(content.manifest.entries),
        size_bytes=content.manifest.size_bytes,
        ranks=ranks,
        problems=broken_codes(problems),
    )


def keep_seen(store: Store, seen: Seen) -> KeptFamily:
    """Store a surveyed family's lists and return what a record says of it."""
    return keep_family(store, seen.content, seen.ranks, seen.problems)


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


def problem_json(problem: Problem, place: bytes) -> dict[str, Any]:
    """Return a problem as commands show it, with the path in the root."""
    path = place + b"/" + problem.path if problem.path else place
    return {
        "code": problem.code,
        "path": shown(path),
        "detail": problem.detail,
        "severity": problem.severity,
    }
