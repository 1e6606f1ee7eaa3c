"""log, pins, show, mark, rebuild: what is known, and adding to what is known of a status."""

from dataclasses import dataclass
from typing import Any

from cachekeeper.catalogue.rows import EventRow, PinRow, RebuildCounts, StatusRow
from cachekeeper.core.drift import Drift
from cachekeeper.core.errors import DamagedStoreError, RefusedError, UsageError
from cachekeeper.core.record import Record
from cachekeeper.core.status import FLOOR, parse_status
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live import Looker, compare_unit, pinned_paths
from cachekeeper.keeper.resolve import Content, pin_content, resolve
from cachekeeper.keeper.survey import outline


@dataclass(frozen=True)
class MarkPlan:
    """A status to append: to which pin, build or snapshot."""

    ref: str
    target_kind: str
    target: str
    status: str
    previous: str | None
    reason: str
    evidence: dict[str, Any]


def pin_rows(keeper: Keeper) -> tuple[PinRow, ...]:
    """Return all pins, newest first; an absent store has none."""
    return keeper.catalogue.pins() if keeper.has_store else ()


def pin_drifts(keeper: Keeper) -> dict[str, Drift]:
    """Return the drift of each pin whose root is at hand and exists, by the pin record's digest."""
    drifts: dict[str, Drift] = {}
    for root in keeper.roots():
        mine = [pin for pin in keeper.catalogue.pins() if pin.root == root.identity]
        if not mine:
            continue
        with keeper.reading(root):
            looker = Looker(keeper, outline(root), pinned_paths(keeper, root))
            for pin in mine:
                drifts[pin.digest] = compare_unit(looker, pin_content(keeper, pin)).drift
    return drifts


def events(keeper: Keeper, reference: str | None) -> tuple[EventRow, ...]:
    """Return what happened, newest first; with a reference only what concerns it."""
    rows = keeper.catalogue.events()
    if reference is None:
        return rows
    content = resolve(keeper, reference)
    digests = _concerned(keeper, content)
    return tuple(row for row in rows if row.digest in digests)


def _concerned(keeper: Keeper, content: Content) -> set[str]:
    """Return the digests of the records that concern some content: by unit key, build or name."""
    keys = {content.key, *(family.key for family in content.families)} - {""}
    builds = {family.build for family in content.families}
    digests = {content.snapshot} - {""}
    pins = {pin.digest for pin in keeper.catalogue.pins(include_removed=True) if pin.key in keys}
    digests |= pins
    for row in keeper.catalogue.events():
        body = _body(keeper, row)
        if row.kind in ("unpin", "status") and {body.get("pin"), body.get("target")} & (
            pins | builds
        ):
            digests.add(row.digest)
        if row.kind == "snapshot" and any(
            family["key"] in keys for place in body["roots"] for family in place["families"]
        ):
            digests.add(row.digest)
        if row.kind == "restore" and any(
            item["family"]["key"] in keys for item in body["families"]
        ):
            digests.add(row.digest)
    return digests


def _body(keeper: Keeper, row: EventRow) -> dict[str, Any]:
    try:
        return dict(keeper.store.records.read(row.kind, row.digest).body)  # type: ignore[arg-type]  # a row's kind is a record's
    except DamagedStoreError:
        return {"roots": [], "families": []}


def statuses(keeper: Keeper, content: Content) -> tuple[StatusRow, ...]:
    """Return the status history of content, newest first."""
    found = list(keeper.catalogue.statuses_of("pin", content.pin.digest)) if content.pin else []
    if content.kind == "snapshot":
        found += keeper.catalogue.statuses_of("snapshot", content.snapshot)
    for family in content.families:
        found += keeper.catalogue.statuses_of("build", family.build)
    return tuple(sorted(found, key=lambda row: -row.sequence))


def plan_mark(
    keeper: Keeper, reference: str, status: str, reason: str, evidence: str | None
) -> MarkPlan:
    """Return the status change to append; raises UsageError, RefusedError."""
    parse_status(status)
    if not reason.strip():
        raise UsageError("a status needs a reason", "give --reason TEXT")
    content = resolve(keeper, reference)
    if content.pin is not None:
        kind, target, previous = "pin", content.pin.digest, content.pin.status
        _check_floor(keeper, content.pin, status)
    elif content.kind == "snapshot":
        kind, target, previous = "snapshot", content.snapshot, None
    else:
        kind, target, previous = "build", content.families[0].build, None
    history = keeper.catalogue.statuses_of(kind, target)
    if history:
        previous = history[0].status
    proof = {"given": evidence} if evidence else {}
    return MarkPlan(reference, kind, target, status, previous, reason, proof)


def execute_mark(keeper: Keeper, plan: MarkPlan) -> Record:
    """Append the status change."""
    store = keeper.store
    with store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        return store.records.append(
            "status",
            {
                "ref": plan.ref,
                "target_kind": plan.target_kind,
                "target": plan.target,
                "status": plan.status,
                "previous": plan.previous,
                "reason": plan.reason,
                "evidence": plan.evidence,
            },
        )


def rebuild(keeper: Keeper) -> RebuildCounts:
    """Make the catalogue anew from the records."""
    with keeper.store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        return keeper.catalogue.rebuild()


def _check_floor(keeper: Keeper, pin: PinRow, status: str) -> None:
    if status != FLOOR:
        return
    for other in keeper.catalogue.pins():
        same_unit = (other.root, other.key) == (pin.root, pin.key)
        if same_unit and other.status == FLOOR and other.digest != pin.digest:
            raise RefusedError(
                f"{pin.key[:8]} already has a floor in this root: the pin {other.name}",
                f"cachekeeper mark {other.name} reference --reason ... first",
            )
