"""Resolving references: from what was typed to stored content.

A bare word is an exact pin name, else a hash prefix: of a pinned unit, else of the newest content
stored. Live references are resolved where the root is read (`keeper/live.py`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cachekeeper.catalogue.rows import BuildRow, PinRow, SnapshotRow
from cachekeeper.core.errors import UnknownReferenceError, UsageError
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.core.references import (
    Reference,
    is_prefix,
    nearest_hint,
    only_match,
    parse_reference,
)
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

    @property
    def build(self) -> str | None:
        """Return the build that was named, else the first family's; an empty snapshot has none."""
        named = self.name.removeprefix("b:") if self.kind == "build" else ""
        return next((f.build for f in self.families if f.build.startswith(named)), None)


class _Placed(Protocol):
    """What belongs to a unit of a root: a pin or content."""

    @property
    def key(self) -> str: ...
    @property
    def root(self) -> str: ...


Placed = TypeVar("Placed", bound=_Placed)


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


def unreadable_pins(keeper: Keeper) -> tuple[str, ...]:
    """Return a sentence for each record of a pin that cannot be read: no list of pins has it."""
    return tuple(
        f"a {record.kind} record cannot be read, so nobody knows what it says: {record.fact}"
        for record in keeper.catalogue.damaged()
        if record.kind in ("pin", "unpin", "status")
    )


def find_pin(keeper: Keeper, text: str) -> PinRow | None:
    """Return the pin with this exact name, else the only pin whose unit has this hash prefix."""
    pins = keeper.catalogue.pins()
    named = [pin for pin in pins if pin.name == text]
    if named:
        return named[0]
    if not is_prefix(text):
        return None
    hits = _here_first(keeper, (pin for pin in pins if _has_key(pin, text)))
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
    """Return the families of the unit that `key` (64 or 10 hex) leads to, its aot family first.

    A partner of several units leads to none of them: it is returned alone.
    """
    aots = {link.aot for link in links if link.compile == key} | {key}
    own = [f for f in families if f.kind == "aot" and f.key in aots]
    partners = {link.compile for link in links if link.aot in {f.key for f in own}}
    if len(own) == 1:
        return (*own, *(f for f in families if f.kind == "compile" and f.key in partners))
    return tuple(f for f in families if f.key == key)


def _named(keeper: Keeper, text: str) -> Content:
    pin = find_pin(keeper, text)
    if pin is not None and text in (pin.name, pin.key):
        return pin_content(keeper, pin)
    units = _stored_units(keeper, text)
    if pin is not None:
        others = [label for label, content in units.items() if content.key != pin.key]
        only_match(text, [_candidate(pin), *others], ())
        return pin_content(keeper, pin)
    if not units:
        hint = nearest_hint(text, known_names(keeper), "cachekeeper log lists what is stored")
        raise UnknownReferenceError(f"nothing stored is known as {text!r}", hint)
    return units[only_match(text, units, ())]


def _stored_units(keeper: Keeper, prefix: str) -> dict[str, Content]:
    """Return the newest content of every unit that has a family with this hash prefix, by label."""
    if not is_prefix(prefix):
        return {}
    rows = _newest_rows(keeper, keeper.catalogue.builds_of_key(prefix, None))
    found = [
        unit_in_snapshot(keeper, row.snapshot, row.root, key)
        for row in rows
        for key in _unit_keys(keeper, row)
    ]
    units = _here_first(keeper, [content for content in found if content is not None])
    return {f"{unit.key} in {shown(parse_path(unit.root))}": unit for unit in units}


def _newest_rows(keeper: Keeper, rows: tuple[BuildRow, ...]) -> Iterable[BuildRow]:
    """Return the newest content of each key and root; what a restore displaced comes last."""
    displaced = {r.digest for r in keeper.catalogue.snapshots() if r.reason == "displaced"}
    ordered = sorted(rows, key=lambda row: (row.snapshot not in displaced, row.sequence))
    return {(row.key, row.root): row for row in ordered}.values()


def _unit_keys(keeper: Keeper, row: BuildRow) -> tuple[str, ...]:
    """Return the units that a stored family belongs to, itself where it belongs to none."""
    body = keeper.store.records.read("snapshot", row.snapshot).body
    places = [place for place in body["roots"] if place["path"] == row.root]
    present = {family["key"] for place in places for family in place["families"]}
    linked = {link["aot"] for p in places for link in p["links"] if link["compile"] == row.key}
    return tuple(sorted(linked & present)) or (row.key,)


def _here_first(keeper: Keeper, found: Iterable[Placed]) -> list[Placed]:
    """Leave out what is of another root where the same unit is of a root at hand as well."""
    every = list(found)
    near = [one for one in every if keeper.root_named(one.root) is not None]
    keys = {one.key for one in near}
    return [*near, *(one for one in every if one.key not in keys)]


def _build(keeper: Keeper, reference: Reference, text: str) -> Content:
    rows = keeper.catalogue.builds_by_prefix(reference.text)
    by_build: dict[str, BuildRow] = {f"b:{row.build}": row for row in reversed(rows)}
    known = () if rows else keeper.catalogue.builds_by_prefix("")
    row = by_build[only_match(text, by_build, (f"b:{row.build}" for row in known))]
    content = unit_in_snapshot(keeper, row.snapshot, row.root, row.key)
    if content is None:  # pragma: no cover  a row comes from that very record
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
    return f"{pin.name} ({pin.key[:16]} in {shown(parse_path(pin.root))})"
