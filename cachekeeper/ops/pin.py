"""pin: a named, protected reference to a whole unit's content.

Guarantee: a pin record is written after its bytes were read from the root in this very command (or
verified in the store, for --from) and are durable. Incomplete or damaged units are refused.
"""

from dataclasses import dataclass, replace
from typing import Any

from cachekeeper.core.errors import BusyError, DamagedStoreError, RefusedError
from cachekeeper.core.paths import parse_path, path_below, shown
from cachekeeper.core.problem import Problem
from cachekeeper.core.record import Record
from cachekeeper.core.references import is_prefix, only_match, parse_pin_name, parse_reference
from cachekeeper.core.status import FLOOR, parse_status
from cachekeeper.keeper.capture import CaptureOptions
from cachekeeper.keeper.facts import RootFacts, keep_seen, seen_family, snapshot_body
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily, links_to_json
from cachekeeper.keeper.live import load_attributes, load_manifest, outline_of
from cachekeeper.keeper.live_unit import find_live_unit
from cachekeeper.keeper.recovery import recover, refuse_unfinished
from cachekeeper.keeper.resolve import Content, snapshot_row, unit_in_snapshot
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import Outline, Seen, see_family, see_unit
from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.units import Link

SETTLED_UNKNOWN = "no warm load has been recorded: measure the floor warm"


@dataclass(frozen=True)
class PinOptions:
    """What the user asked for beside the hash."""

    name: str | None = None
    status: str = FLOOR
    reason: str | None = None
    snapshot: str | None = None


@dataclass(frozen=True)
class PinPlan:
    """The unit to pin: from a root (with its places) or from a snapshot (with its content)."""

    name: str
    status: str
    reason: str | None
    key: str
    root: str
    links: tuple[Link, ...]
    places: tuple[FamilyPlace, ...] = ()
    live_root: Root | None = None
    stored: Content | None = None


@dataclass(frozen=True)
class PinResult:
    """The pin as recorded (`record` is None after a dry run)."""

    plan: PinPlan
    record: Record | None
    unit: tuple[KeptFamily, ...]
    new_bytes: int
    notes: tuple[str, ...]


def plan_pin(keeper: Keeper, text: str, options: PinOptions) -> PinPlan:
    """Return what will be pinned; raises UsageError, RefusedError before anything is written."""
    status = parse_status(options.status)
    if options.snapshot is not None:
        plan = _plan_stored(keeper, text, options)
    else:
        plan = _plan_live(keeper, text, options)
    check_free(keeper, plan.name, status, plan.root, plan.key)
    return plan


def execute_pin(keeper: Keeper, plan: PinPlan) -> PinResult:
    """Store and pin the unit; raises RefusedError for an incomplete or damaged one."""
    store = keeper.make_store()
    with store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        check_free(keeper, plan.name, plan.status, plan.root, plan.key)
        if plan.stored is not None:
            verify_stored(keeper, plan.stored)
            return _record(keeper, plan, plan.stored.families, plan.stored.snapshot)
        assert plan.live_root is not None
        with keeper.reading(plan.live_root):
            seen = _see(keeper, plan, keep=True)
        refuse_unfit(seen, plan.name)
        families = tuple(keep_seen(store, one) for one in seen)
        store.objects.sync()
        facts = RootFacts(plan.live_root, families, plan.links)
        body = snapshot_body("pin", f"pin {plan.name}", [facts], keeper.settings.origin)
        snapshot = store.records.append("snapshot", body)
        result = _record(keeper, plan, families, snapshot.digest)
        new = sum(one.content.new_bytes for one in seen)
        return replace(result, new_bytes=new, notes=_warnings(seen))


def preview_pin(keeper: Keeper, plan: PinPlan) -> PinResult:
    """Return what executing would pin, reading but not writing."""
    if plan.stored is not None:
        verify_stored(keeper, plan.stored)
        return PinResult(plan, None, plan.stored.families, 0, ())
    assert plan.live_root is not None
    with keeper.reading(plan.live_root):
        seen = _see(keeper, plan, keep=False)
    refuse_unfit(seen, plan.name)
    return PinResult(plan, None, tuple(map(seen_family, seen)), 0, _warnings(seen))


def check_free(keeper: Keeper, name: str, status: str, root: str, key: str) -> None:
    """Refuse a name that is taken and a second floor for one unit and root."""
    if not keeper.has_store:
        return
    for pin in keeper.catalogue.pins():
        if status == FLOOR and pin.status == FLOOR and (pin.root, pin.key) == (root, key):
            raise RefusedError(
                f"{key[:8]} already has a floor in this root: the pin {pin.name}",
                f"give another --status, or: cachekeeper mark {pin.name} reference --reason …",
            )
        if pin.name == name:
            raise RefusedError(
                f"the pin name {name} is taken (unit {pin.key[:16]})",
                f"choose a --name, or cachekeeper unpin {name} first",
            )


def refuse_unfit(seen: tuple[Seen, ...], name: str) -> None:
    """Refuse a unit with a damaged file or a missing rank: it would be no floor to return to."""
    for one in seen:
        for problem in one.problems:
            if problem.severity in ("damaged", "incomplete"):
                where = shown(path_below(one.place.path, problem.path))
                raise RefusedError(
                    f"{name} is {problem.severity}: {where}: {problem.detail} ({problem.code})",
                    "cachekeeper verify lists all of it; cachekeeper snapshot keeps it as it is",
                )


def verify_stored(keeper: Keeper, content: Content) -> None:
    """Re-hash every object of stored content; raises DamagedStoreError, RefusedError."""
    objects = keeper.store.objects
    for family in content.families:
        if family.problems:
            raise RefusedError(
                f"{shown(family.path)} was stored broken: {', '.join(family.problems)}",
                "choose a snapshot in which it was whole",
            )
        locks = load_attributes(keeper.store, family.attributes).entries
        entries = load_manifest(keeper.store, family.build).entries
        for digest in (*(e.digest for e in entries), *(e.digest for e in locks if e.kind == "k")):
            fault = objects.verify(digest)
            if fault:
                raise DamagedStoreError(
                    f"the object {digest[:16]} of {shown(family.path)} is {fault}",
                    "cachekeeper check names every pin and snapshot hit",
                )


def _plan_live(keeper: Keeper, text: str, options: PinOptions) -> PinPlan:
    for root in keeper.roots():
        recover(keeper, root)
    sight, key = find_live_unit(keeper, text)
    places = _unit_places(sight, key)
    return PinPlan(
        name=parse_pin_name(options.name or key[:8]),
        status=options.status,
        reason=options.reason,
        key=key,
        root=sight.root.identity,
        links=sight.unit_links(key),
        places=places,
        live_root=sight.root,
    )


def _plan_stored(keeper: Keeper, text: str, options: PinOptions) -> PinPlan:
    typed = options.snapshot or ""
    reference = parse_reference(typed)
    prefix = reference.text if reference.kind == "snapshot" else typed
    row = snapshot_row(keeper, prefix, typed)
    body = keeper.store.records.read("snapshot", row.digest).body
    found: dict[str, Content] = {}
    known = set()
    for place in body["roots"]:
        for family in place["families"]:
            known.add(family["key"])
            if family["kind"] != "other" and is_prefix(text) and family["key"].startswith(text):
                unit = unit_in_snapshot(keeper, row.digest, place["path"], family["key"])
                if unit is not None:
                    found[f"{unit.key} in {shown(parse_path(unit.root))}"] = unit
    unit = found[only_match(text, found, known)]
    return PinPlan(
        name=parse_pin_name(options.name or unit.key[:8]),
        status=options.status,
        reason=options.reason,
        key=unit.key,
        root=unit.root,
        links=unit.links,
        stored=unit,
    )


def _unit_places(sight: Outline, key: str) -> tuple[FamilyPlace, ...]:
    return sight.unit_places(key) or tuple(p for p in sight.places if p.key == key)


def _see(keeper: Keeper, plan: PinPlan, *, keep: bool) -> tuple[Seen, ...]:
    """Read the unit, which must be the planned one still; the caller holds the root."""
    assert plan.live_root is not None
    refuse_unfinished(plan.live_root)
    if _unit_places(outline_of(keeper, plan.live_root), plan.key) != plan.places:
        raise BusyError(
            f"another family became part of {plan.key[:8]}, or left it, just now", "run it again"
        )
    objects = keeper.store.objects if keep else None
    options = CaptureOptions(objects=objects, repair=keep)
    seen = []
    for number, place in enumerate(plan.places):
        keeper.settings.progress(f"pinning {plan.key[:8]}", number, len(plan.places))
        seen.append(see_family(plan.live_root, place, options))
    return see_unit(plan.live_root, seen)


def _warnings(seen: tuple[Seen, ...]) -> tuple[str, ...]:
    found: list[tuple[Seen, Problem]] = [(one, p) for one in seen for p in one.problems]
    return tuple(
        f"{shown(one.place.path)}{'/' if p.path else ''}{shown(p.path)}: {p.detail} ({p.code})"
        for one, p in found
    )


def _record(
    keeper: Keeper,
    plan: PinPlan,
    unit: tuple[KeptFamily, ...],
    snapshot: str,
) -> PinResult:
    ranks = next((family.ranks for family in unit if family.kind == "aot"), unit[0].ranks)
    body: dict[str, Any] = {
        "name": plan.name,
        "status": plan.status,
        "reason": plan.reason,
        "key": plan.key,
        "root": plan.root,
        "unit": [family.to_json() for family in unit],
        "links": links_to_json(plan.links),
        "ranks": {"expected": list(ranks), "source": "assumed"},
        "settled": False,
        "snapshot": snapshot,
    }
    record = keeper.store.records.append(
        "pin", body, lambda: check_free(keeper, plan.name, plan.status, plan.root, plan.key)
    )
    return PinResult(plan, record, unit, 0, ())
