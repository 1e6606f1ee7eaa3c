"""Content that a restore displaces: stored before the exchange, and again if it changed since."""

import os
from collections.abc import Mapping
from typing import Any

from cachekeeper.core.paths import parse_path, path_text
from cachekeeper.fs.walk import walk_tree
from cachekeeper.keeper.capture import Captured, CaptureOptions, capture_family
from cachekeeper.keeper.facts import RootFacts, keep_family, snapshot_body
from cachekeeper.keeper.kept import parse_family, place_of
from cachekeeper.keeper.memory import Memory
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import ranks_of
from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.store.store import Store


def capture_displaced(store: Store, path: bytes, place: FamilyPlace, memory: Memory) -> Captured:
    """Capture a tree that is about to go, its temporary files too; raises BusyError, OSError."""
    options = CaptureOptions(objects=store.objects, memory=memory, keep_temporary=True)
    return capture_family(path, place, options)


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


def is_unchanged(path: bytes, captured: Captured) -> bool:
    """Tell, by states alone, whether a displaced tree is still the one that was captured.

    ctime is left out: the exchange and staging's hard links change it.
    """
    attributes = captured.attributes.by_path()
    tree = walk_tree(path)
    if tree.unreadable or len(tree.entries) != len(attributes):
        return False
    sizes = {entry.path: entry.size_bytes for entry in captured.manifest.entries}
    for found in tree.entries:
        known = attributes.get(found.path)
        if known is None:
            return False
        if found.kind == "file":
            size = sizes.get(found.path, known.size_bytes)
            if (size, known.mtime_ns) != (found.status.st_size, found.status.st_mtime_ns):
                return False
        elif found.kind == "link" and len(os.readlink(path + b"/" + found.path)) != sizes.get(
            found.path
        ):
            return False
    return True


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
