"""show: all that is known of stored content, or of what stands in a root now."""

from dataclasses import dataclass

from cachekeeper.catalogue.rows import SnapshotRow, StatusRow
from cachekeeper.core.references import parse_reference
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live_unit import live_content
from cachekeeper.keeper.resolve import Content, resolve, snapshot_row


@dataclass(frozen=True)
class Shown:
    """Content with the root of each family, its statuses, and the snapshot that holds it.

    `snapshot` is None for what stands in a root and is not asked of the store.
    """

    content: Content
    roots: tuple[str, ...]
    statuses: tuple[StatusRow, ...]
    snapshot: SnapshotRow | None


def show(keeper: Keeper, text: str) -> Shown:
    """Return what a reference names; raises UsageError and its children."""
    if parse_reference(text).kind == "live":
        content = live_content(keeper, text)
        known = statuses(keeper, content) if keeper.has_store else ()
        return Shown(content, (content.root,) * len(content.families), known, None)
    content = resolve(keeper, text)
    row = snapshot_row(keeper, content.snapshot, text)
    return Shown(content, _roots(keeper, content), statuses(keeper, content), row)


def _roots(keeper: Keeper, content: Content) -> tuple[str, ...]:
    """Return the root of each family; a snapshot may hold several roots."""
    if content.root:
        return (content.root,) * len(content.families)
    body = keeper.store.records.read("snapshot", content.snapshot).body
    return tuple(place["path"] for place in body["roots"] for _family in place["families"])


def statuses(keeper: Keeper, content: Content) -> tuple[StatusRow, ...]:
    """Return the status history of content, newest first."""
    found = list(keeper.catalogue.statuses_of("pin", content.pin.digest)) if content.pin else []
    if content.kind == "snapshot":
        found += keeper.catalogue.statuses_of("snapshot", content.snapshot)
    for family in content.families:
        found += keeper.catalogue.statuses_of("build", family.build)
    return tuple(sorted(found, key=lambda row: -row.sequence))
