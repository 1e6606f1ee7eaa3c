"""Resolving references: from what was typed to stored content.

A bare word is an exact pin name, else a hash prefix: of a pinned unit, else of the newest content
stored. Live references are resolved where the root is read (`keeper/live.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cachekeeper.catalogue.rows import BuildRow, PinRow, SnapshotRow
from cachekeeper.core.errors import UnknownReferenceError, UsageError
from cachekeeper.core.references import Reference, is_prefix, nearest, only_match, parse_reference
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily, families_of, parse_family, parse_links
from cachekeeper.layouts.units import Link


@dataclass(frozen=True)
class Content:
    """Stored content of a unit, a snapshot or a single family, and where it came from.

    `exact`: equal content is asked for, so harmless growth is replaced as well.
    """

    name: str
    kind: str
    key: str
    root: str
    families: tuple[KeptFamily, ...]
    links: tuple[Link, ...]
    exact: bool
    pin: PinRow | None = None
    snapshot: str = ""


def resolve(keeper: Keeper, text: str) -> Content:
    """Return the stored content a reference names; raises UsageError and its children."""
    reference = parse_reference(text)
    if reference.kind == "name":
        return _named(keeper, text)
    if reference.kind == "build":
        return _build(keeper, reference, text)
    if reference.kind == "snapshot":
        return snapshot_content(keeper, snapshot_row(keeper, reference.text, text))
    if reference.kind == "live":
        raise UsageError(
            f"{text!r} is what stands in the root, not what is stored",
            "name a pin, a hash, a build (b:...) or a snapshot (s:...)",
        )
    raise UnknownReferenceError(
        f"no run is known as {text!r}", "cachekeeper log lists what is known"
    )


def pin_content(keeper: Keeper, pin: PinRow) -> Content:
    """Return the content of a pin, read from its record."""
    body = keeper.store.records.read("pin", pin.digest).body
    families = tuple(parse_family(family) for family in body["unit"])
    links = parse_links(body["links"])
    return Content(
        pin.name,
        "pin",
        pin.key,
        pin.root,
        families,
        links,
        exact=False,
        pin=pin,
        snapshot=pin.snapshot,
    )


def find_pin(keeper: Keeper, text: str) -> PinRow | None:
    """Return the pin with this exact name, else the only pin whose unit has this hash prefix."""
    pins = keeper.catalogue.pins()
    named = [pin for pin in pins if pin.name == text]
    if named:
        return named[0]
    if not is_prefix(text):
        return None
    hits = [pin for pin in pins if _has_key(pin, text)]
    if not hits:
        return None
    units = {pin.key for pin in hits}
    if len(units) == 1 and len(hits) > 1:
        floors = [pin for pin in hits if pin.status == "floor"]
        hits = floors if len(floors) == 1 else hits
    name = only_match(text, (_candidate(pin) for pin in hits), ())
    return next(pin for pin in hits if _candidate(pin) == name)


def snapshot_row(keeper: Keeper, prefix: str, typed: str) -> SnapshotRow:
    """Return the only snapshot with this digest prefix."""
    rows = keeper.catalogue.snapshot_by_prefix(prefix)
    names = {f"s:{row.digest[:16]}": row for row in rows}
    known = (f"s:{row.digest[:16]}" for row in keeper.catalogue.snapshots())
    return names[only_match(typed, names, () if rows else known)]


def snapshot_content(keeper: Keeper, row: SnapshotRow) -> Content:
    """Return all families of a snapshot; its roots must be one for a restore."""
    body = keeper.store.records.read("snapshot", row.digest).body
    roots = [place["path"] for place in body["roots"]]
    links = tuple(link for place in body["roots"] for link in parse_links(place["links"]))
    name = f"s:{row.digest[:16]}"
    root = roots[0] if len(roots) == 1 else ""
    return Content(
        name, "snapshot", "", root, families_of(body), links, exact=True, snapshot=row.digest
    )


def unit_in_snapshot(keeper: Keeper, snapshot: str, root: str, key: str) -> Content | None:
    """Return the unit that has a family with this key in a snapshot, None where there is none."""
    body = keeper.store.records.read("snapshot", snapshot).body
    for place in body["roots"]:
        if place["path"] != root:
            continue
        families = tuple(parse_family(family) for family in place["families"])
        links = parse_links(place["links"])
        unit = _unit_of(families, links, key)
        if unit:
            main = unit[0]
            kept = tuple(link for link in links if link.aot == main.key)
            return Content(
                main.key[:8], main.kind, main.key, root, unit, kept, exact=False, snapshot=snapshot
            )
    return None


def _unit_of(
    families: tuple[KeptFamily, ...], links: tuple[Link, ...], key: str
) -> tuple[KeptFamily, ...]:
    """Return the families of the unit that `key` (64 or 10 hex) leads to, its aot family first."""
    aots = {link.aot for link in links if link.compile == key} | {key}
    own = [f for f in families if f.kind == "aot" and f.key in aots]
    partners = {link.compile for link in links if link.aot in {f.key for f in own}}
    if own:
        return (*own, *(f for f in families if f.kind == "compile" and f.key in partners))
    return tuple(f for f in families if f.key == key)


def _named(keeper: Keeper, text: str) -> Content:
    pin = find_pin(keeper, text)
    if pin is not None:
        return pin_content(keeper, pin)
    rows = keeper.catalogue.builds_of_key(text, None) if is_prefix(text) else ()
    places = _newest_places(keeper, rows)
    if not places:
        known = known_names(keeper)
        near = nearest(text, known)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "cachekeeper log lists what is stored"
        )
        raise UnknownReferenceError(f"nothing stored is known as {text!r}", hint)
    row = places[only_match(text, places, ())]
    content = unit_in_snapshot(keeper, row.snapshot, row.root, row.key)
    if content is None:  # pragma: no cover  a row comes from that very record
        raise UnknownReferenceError(f"nothing stored is known as {text!r}", "cachekeeper rebuild")
    return content


def _newest_places(keeper: Keeper, rows: tuple[BuildRow, ...]) -> dict[str, BuildRow]:
    """Return the newest content of each key and root; what a restore displaced comes last."""
    displaced = {r.digest for r in keeper.catalogue.snapshots() if r.reason == "displaced"}
    ordered = sorted(rows, key=lambda row: (row.snapshot not in displaced, row.sequence))
    return {f"{row.key} in {row.root}": row for row in ordered}


def _build(keeper: Keeper, reference: Reference, text: str) -> Content:
    rows = keeper.catalogue.builds_by_prefix(reference.text)
    by_build: dict[str, BuildRow] = {f"b:{row.build}": row for row in reversed(rows)}
    row = by_build[only_match(text, by_build, ())]
    content = unit_in_snapshot(keeper, row.snapshot, row.root, row.key)
    if content is None:
        raise UnknownReferenceError(f"nothing stored is known as {text!r}", "cachekeeper rebuild")
    return Content(
        f"b:{row.build[:16]}", "build", content.key, content.root, content.families,
        content.links, exact=True, snapshot=row.snapshot,
    )  # fmt: skip


def known_names(keeper: Keeper) -> tuple[str, ...]:
    """Return every name a bare word could mean: pins and the keys of stored families."""
    names: set[str] = set()
    for pin in keeper.catalogue.pins():
        names |= {pin.name, pin.key}
    names |= {row.key for row in keeper.catalogue.builds_of_key("", None)}
    return tuple(sorted(names))


def _has_key(pin: PinRow, prefix: str) -> bool:
    keys: Iterable[str] = (pin.key, *(family.key for family in pin.families))
    return any(key.startswith(prefix) for key in keys)


def _candidate(pin: PinRow) -> str:
    return f"{pin.name} ({pin.key[:16]} in {pin.root})"
