"""log: what happened, newest first."""

from collections.abc import Mapping
from typing import Any

from cachekeeper.catalogue.rows import EventRow
from cachekeeper.core.errors import DamagedStoreError
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.resolve import Content, resolve


def events(keeper: Keeper, reference: str | None) -> tuple[EventRow, ...]:
    """Return what happened, newest first; with a reference only what concerns it."""
    if reference is None and keeper.is_new:
        return ()
    rows = keeper.catalogue.events()
    if reference is None:
        return rows
    content = resolve(keeper, reference)
    digests = _concerned(keeper, content)
    return tuple(row for row in rows if row.digest in digests)


def _concerned(keeper: Keeper, content: Content) -> set[str]:
    """Return the digests of the records that concern a unit in its root, or a snapshot."""
    pins = {
        pin.digest
        for pin in keeper.catalogue.pins(include_removed=True)
        if (pin.key, pin.root) == (content.key, content.root)
        or (content.kind == "snapshot" and pin.snapshot == content.snapshot)
    }
    keys = _keys(content)
    builds = {row.build for key in keys for row in keeper.catalogue.builds_of_key(key, None)}
    targets = pins | builds | {content.snapshot}
    return {
        row.digest
        for row in keeper.catalogue.events()
        if row.digest in targets or _concerns(row.kind, _body(keeper, row), content, targets)
    }


def _keys(content: Content) -> set[str]:
    """Return the keys that a unit's history goes by; a snapshot has a history of its own."""
    return set() if content.kind == "snapshot" else {family.key for family in content.families}


def _concerns(kind: str, body: Mapping[str, Any], content: Content, targets: set[str]) -> bool:
    if kind in ("unpin", "status"):
        return body.get("pin", body.get("target")) in targets
    keys = _keys(content)
    if kind == "restore":
        here = body.get("root") == content.root
        mine = any(item["family"]["key"] in keys for item in body.get("families", ()))
        return (here and mine) or (not keys and body.get("snapshot") == content.snapshot)
    return any(
        place["path"] == content.root and any(f["key"] in keys for f in place["families"])
        for place in body.get("roots", ())
    )


def _body(keeper: Keeper, row: EventRow) -> Mapping[str, Any]:
    """Return a record's body, nothing where it is damaged: check names it."""
    try:
        return keeper.store.records.read(row.kind, row.digest).body  # type: ignore[arg-type]  # a row's kind is a record's
    except DamagedStoreError:
        return {}
