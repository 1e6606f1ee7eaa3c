"""mark: append a status to a pin, build or snapshot; the history is never rewritten."""

import os
from dataclasses import dataclass
from typing import Any

from cachekeeper.core.errors import RefusedError, UsageError
from cachekeeper.core.paths import path_text
from cachekeeper.core.record import Record
from cachekeeper.core.status import FLOOR, parse_status
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.resolve import resolve
from cachekeeper.probe.origin import redacted


@dataclass(frozen=True)
class MarkPlan:
    """A status to append: to which pin, build or snapshot."""

    ref: str
    target_kind: str
    target: str
    status: str
    previous: str | None
    reason: str
    evidence: str | None


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
    elif content.kind == "snapshot":
        kind, target, previous = "snapshot", content.snapshot, None
    else:
        kind, target, previous = "build", content.build or "", None
    if status == FLOOR:
        _check_floor(keeper, kind, target)
    history = keeper.catalogue.statuses_of(kind, target)
    if history:
        previous = history[0].status
    return MarkPlan(reference, kind, target, status, previous, reason, evidence)


def execute_mark(keeper: Keeper, plan: MarkPlan) -> Record:
    """Append the status change; raises RefusedError where another floor came meanwhile."""
    store = keeper.store
    with store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        body = {
            "ref": plan.ref,
            "target_kind": plan.target_kind,
            "target": plan.target,
            "status": plan.status,
            "previous": plan.previous,
            "reason": plan.reason,
            "evidence": _evidence(keeper, plan.evidence),
        }
        return store.records.append("status", body, lambda: _check_still_free(keeper, plan))


def _evidence(keeper: Keeper, given: str | None) -> dict[str, Any]:
    """Return what a record says of evidence: a file is kept with its digest, a URL as it is.

    Credentials in a URL are not recorded.
    """
    if given is None:
        return {}
    path = os.fsencode(given)
    if os.path.isfile(path):
        stored, _state = keeper.store.objects.put_file(path)
        keeper.store.objects.sync()
        return {"file": path_text(os.path.abspath(path)), "digest": stored.digest}
    return {"text": redacted("evidence", given)}


def _check_still_free(keeper: Keeper, plan: MarkPlan) -> None:
    if plan.status == FLOOR:
        _check_floor(keeper, plan.target_kind, plan.target)


def _check_floor(keeper: Keeper, target_kind: str, target: str) -> None:
    """Refuse a floor that is no pin, and a second floor of one unit and root."""
    pins = {pin.digest: pin for pin in keeper.catalogue.pins()}
    pin = pins.get(target)
    if pin is None:
        raise RefusedError(
            f"a {target_kind} cannot be a floor: a floor is what a pin protects",
            "cachekeeper pin HASH makes one (--from SNAPSHOT for what is stored)",
        )
    for other in pins.values():
        same_unit = (other.root, other.key) == (pin.root, pin.key)
        if same_unit and other.status == FLOOR and other.digest != pin.digest:
            raise RefusedError(
                f"{pin.key[:8]} already has a floor in this root: the pin {other.name}",
                f"cachekeeper mark {other.name} reference --reason ... first",
            )
