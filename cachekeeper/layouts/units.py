"""Which `compile` families belong to which `aot` family, each link with its evidence.

vLLM writes no link. Without the mega artifact the index of the compile family names AOTAutograd
keys, and these are directories in the AOT family's own `inductor_cache`: exact on every real tree
seen. With the mega artifact only times are left: see `inferred.py`.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.handles import read_index
from cachekeeper.layouts.inferred import Candidate, infer_partners
from cachekeeper.layouts.listing import (
    INDEX_NAME,
    SmallFileReader,
    directory_names,
    parts_of,
    read_small,
)

LinkSource = Literal["log", "handles", "run", "inferred"]

GRAPH_NAME = b"computation_graph.py"
AOTAUTOGRAD = b"inductor_cache/aotautograd"


@dataclass(frozen=True, slots=True)
class Link:
    """An aot family's key, its partner's key, and where the link is known from."""

    aot: str
    compile: str
    source: LinkSource
    detail: str


@dataclass(frozen=True, slots=True)
class _IndexKeys:
    """The cache keys that one index of a compile family names."""

    compile: str
    keys: frozenset[str]


def find_links(
    root: bytes, places: Iterable[FamilyPlace], read: SmallFileReader = read_small
) -> tuple[Link, ...]:
    """Return the links between the families of a root, sorted by their keys; never raises.

    After an overwrite the old and the new compile family both match: both are linked, since the
    kernels of the model in place lie in one of them.
    """
    known = tuple(places)
    aots = tuple(place for place in known if place.kind == "aot")
    compiles = tuple(place for place in known if place.kind == "compile")
    graph_keys = {place.key: _graph_keys(root, place) for place in aots}
    indexes = tuple(index for place in compiles for index in _indexes(root, place, read))
    links = _links_by_handles(graph_keys, indexes)
    candidates = (
        tuple(
            Candidate(place, bool(graph_keys[place.key]))
            for place in aots
            if place.key not in {link.aot for link in links}
        ),
        tuple(
            Candidate(place, any(index.compile == place.key for index in indexes))
            for place in compiles
            if place.key not in {link.compile for link in links}
        ),
    )
    is_only_pair = len(aots) == len(compiles) == 1
    guesses = infer_partners(root, *candidates, is_only_pair=is_only_pair)
    links += [Link(aot, partner, "inferred", detail) for aot, partner, detail in guesses]
    return tuple(sorted(links, key=lambda link: (link.aot, link.compile)))


def is_mega(root: bytes, place: FamilyPlace) -> bool:
    """Return whether a compile family belongs to a mega artifact: graphs, no index, no artifacts.

    The kernels then lie in the AOT family alone. A compile that was killed has no graph yet.
    """
    parts = parts_of(root, place)
    if any(part.has_index or part.artifact_count for part in parts):
        return False
    return any(GRAPH_NAME in part.file_names for part in parts)


def _graph_keys(root: bytes, place: FamilyPlace) -> frozenset[str]:
    names = directory_names(os.path.join(root, place.path, AOTAUTOGRAD))
    return frozenset(name.decode("ascii", "replace") for name in names)


def _indexes(root: bytes, place: FamilyPlace, read: SmallFileReader) -> list[_IndexKeys]:
    family = os.path.join(root, place.path)
    paths = [part.path for part in parts_of(root, place) if part.has_index]
    found = [read_index(os.path.join(family, path, INDEX_NAME), read).handles for path in paths]
    keys = [frozenset(handle.cache_key for handle in handles) - {""} for handles in found]
    return [_IndexKeys(place.key, each) for each in keys if each]


def _links_by_handles(
    graph_keys: dict[str, frozenset[str]], indexes: tuple[_IndexKeys, ...]
) -> list[Link]:
    """Link each index to the AOT family that has most of its keys, to all such if several have."""
    matched: dict[tuple[str, str], list[_IndexKeys]] = {}
    for index in indexes:
        counts = {aot: len(index.keys & keys) for aot, keys in graph_keys.items()}
        most = max(counts.values(), default=0)
        for aot, count in counts.items():
            if count == most > 0:
                matched.setdefault((aot, index.compile), []).append(index)
    links = []
    for (aot, partner), found in matched.items():
        count = sum(len(index.keys & graph_keys[aot]) for index in found)
        total = sum(len(index.keys) for index in indexes if index.compile == partner)
        detail = f"{count} of {total} cache keys of its indexes are keys in {aot[:8]}'s AOTAutograd"
        links.append(Link(aot, partner, "handles", detail))
    return links
