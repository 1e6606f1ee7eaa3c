"""Content that a restore displaces: stored before the exchange, and again if it changed since."""

import os
from collections.abc import Container, Mapping
from typing import Any

from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import RefusedError
from cachekeeper.core.paths import parse_path, path_below, path_text, shown
from cachekeeper.fs.reading import FileState
from cachekeeper.fs.walk import Found, walk_tree
from cachekeeper.keeper.capture import Captured, CaptureOptions, capture_family
from cachekeeper.keeper.facts import RootFacts, keep_family, snapshot_body
from cachekeeper.keeper.kept import parse_family, place_of
from cachekeeper.keeper.memory import Memory
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import ranks_of
from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.store.store import Store


def capture_displaced(
    store: Store,
    path: bytes,
    place: FamilyPlace,
    memory: Memory,
    outliving: frozenset[int] = frozenset(),
) -> Captured:
    """Capture a tree that is about to go, its temporary files too; raises RefusedError, BusyError.

    A file that cannot be read cannot be kept, so the tree must not go. `outliving` are the inodes
    that staging gave a second name.
    """
    options = CaptureOptions(
        objects=store.objects, memory=memory, keep_temporary=True, repair=True, outliving=outliving
    )
    captured = capture_family(path, place, options)
    for problem in captured.problems:
        if problem.code == "unreadable":
            where = shown(path_below(path, problem.path))
            raise RefusedError(
                f"{where} cannot be read, so it cannot be kept: {problem.detail}",
                "run as the owner of these files, or as root",
            )
    return captured


def record_displaced(
    store: Store, root: Root, old: bytes, target: bytes, record: Mapping[str, Any]
) -> None:
    """Store a displaced tree once more where it is not what the restore had stored.

    A live writer may have written between the storing and the exchange.
    """
    item = next(item for item in record["families"] if parse_path(item["path"]) == target)
    place = place_of(parse_family(item["family"]))
    content = capture_displaced(store, old, place, {})
    stored = (content.manifest.build_id, content.attributes.digest)
    if stored == (item["displaced"], item["displaced_attributes"]):
        return
    family = keep_family(store, content, ranks_of(place, content), content.problems)
    facts = RootFacts(root, (family,), ())
    store.objects.sync()
    message = f"changed while restore {record['restore']} displaced it"
    store.records.append("snapshot", snapshot_body("displaced", message, [facts], {}))


def is_unchanged(path: bytes, captured: Captured, linked: Container[int]) -> bool:
    """Tell, by states alone, whether a displaced tree is still the one that was captured.

    A file that was too young to tell when it was captured counts as changed. The `linked` inodes
    stand in the restored tree as well, so nothing of them goes.
    """
    kept = {entry.path for entry in captured.attributes.entries if entry.kind != "d"}
    links = {entry.path: entry.digest for entry in captured.manifest.entries if entry.kind == "l"}
    tree = walk_tree(path)
    files = [found for found in tree.entries if found.kind != "dir"]
    if tree.unreadable or {found.path for found in files} != kept:
        return False
    return all(
        _is_same_link(path, found, links)
        if found.kind == "link"
        else _is_same_file(found, captured.memory, linked)
        for found in files
    )


def _is_same_link(top: bytes, found: Found, links: Mapping[bytes, str]) -> bool:
    return digest_of(os.readlink(path_below(top, found.path))) == links.get(found.path)


def _is_same_file(found: Found, memory: Memory, linked: Container[int]) -> bool:
    known = memory.get(found.path)
    state = FileState.of(found.status)
    return state.inode in linked or (known is not None and known[0] == state)


def displaced_json(
    family: Mapping[str, Any], path: bytes, captured: Captured | None
) -> dict[str, Any]:
    """Return what a restore record says of one family: what came, and what went."""
    return {
        "path": path_text(path),
        "build": family["build"],
        "displaced": captured.manifest.build_id if captured else None,
        "displaced_attributes": captured.attributes.digest if captured else None,
        "family": dict(family),
    }
