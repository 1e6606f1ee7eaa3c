"""restore: put stored content back, whole units, or leave everything as it was.

The protocol is docs/design/restore-protocol.md: stage and verify beside the root's families, store
what stands there, write the intent, exchange, verify again, record.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from cachekeeper.config.locations import vllm_cache_root
from cachekeeper.core.drift import HARMLESS
from cachekeeper.core.errors import BusyError, DamagedStoreError, RefusedError
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.core.status import FLOOR
from cachekeeper.fs.atomic import ensure_directory
from cachekeeper.keeper.capture import CaptureOptions, capture_family
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live import (
    FamilyComparison,
    Looker,
    UnitComparison,
    compare_unit,
    outline_of,
    pinned_paths,
)
from cachekeeper.keeper.recovery import recover, refuse_unfinished
from cachekeeper.keeper.replacement import Displaced, FamilyStep, Purpose, Replacement
from cachekeeper.keeper.resolve import Content, pin_content, resolve, unreadable_pins
from cachekeeper.keeper.roots import Root, absent_root, check_apart
from cachekeeper.keeper.source import check_owners, check_present
from cachekeeper.layouts.units import Link
from cachekeeper.probe.live_users import LiveUsers, Search, find_live_users
from cachekeeper.probe.mounts import mounts_below


@dataclass(frozen=True)
class RootPlan:
    """What a restore does in one root: families to exchange, units that are left alone."""

    root: Root
    steps: tuple[FamilyStep, ...]
    restored: tuple[UnitComparison, ...]
    unchanged: tuple[UnitComparison, ...]
    users: LiveUsers


@dataclass(frozen=True)
class RestorePlan:
    """A restore, root by root; `references` as typed, empty for the floors."""

    references: tuple[str, ...]
    roots: tuple[RootPlan, ...]
    force: bool


@dataclass(frozen=True)
class RestoreResult:
    """What was done; `findings` name what changed under the restore's hands."""

    plan: RestorePlan
    displaced: tuple[Displaced, ...]
    findings: tuple[str, ...]


def plan_restore(keeper: Keeper, references: tuple[str, ...], *, force: bool) -> RestorePlan:
    """Return what a restore would do; raises RefusedError, UsageError, BusyError.

    Everything that policy can refuse is refused here, before anything is written.
    """
    contents = _wanted(keeper, references)
    plans = []
    roots = map(absent_root, keeper.settings.roots)
    for root in {root.real: root for root in roots}.values():
        check_apart(root, keeper.store.path)
        mine = tuple(content for content in contents if content.root == root.identity)
        if mine:
            plans.append(_plan_root(keeper, root, mine, force=force))
    return RestorePlan(references, tuple(plans), force)


def execute_restore(keeper: Keeper, plan: RestorePlan) -> RestoreResult:
    """Carry a plan out; raises BusyError, DamagedStoreError, OSError, and nothing is half-done."""
    displaced: list[Displaced] = []
    findings: list[str] = []
    with keeper.store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        for root_plan in plan.roots:
            if not root_plan.steps:
                continue
            ensure_directory(root_plan.root.real, 0o755)
            with keeper.changing(root_plan.root):
                _refuse_changed(root_plan)
                _refuse_users(_users(root_plan.root, root_plan.steps), force=plan.force)
                purpose = Purpose(plan.references, _links(root_plan.restored))
                done, odd = Replacement(keeper, root_plan.root, root_plan.steps, purpose).run()
            displaced += done
            findings += odd
    return RestoreResult(plan, tuple(displaced), tuple(findings))


def _wanted(keeper: Keeper, references: tuple[str, ...]) -> tuple[Content, ...]:
    """Return the contents asked for; without references the floors of the roots at hand."""
    if not references:
        for fact in unreadable_pins(keeper):
            raise DamagedStoreError(fact, "name the pins to restore; cachekeeper check says more")
        floors = [pin for pin in keeper.catalogue.pins() if pin.status == FLOOR]
        return tuple(
            pin_content(keeper, pin) for pin in floors if keeper.root_named(pin.root) is not None
        )
    contents = tuple(resolve(keeper, text) for text in references)
    for text, content in zip(references, contents, strict=True):
        if keeper.root_named(content.root) is None:
            _refuse_other_place(keeper, text, content)
    return contents


def _refuse_other_place(keeper: Keeper, text: str, content: Content) -> None:
    if not content.root:
        raise RefusedError(
            f"{text} holds several roots", "restore its units one by one, by hash or build"
        )
    here = ", ".join(shown(path) for path in keeper.settings.roots)
    there = shown(parse_path(content.root))
    raise RefusedError(
        f"{text} was made in {there} and is restored nowhere else (the root here is {here}): "
        "its indexes hold absolute paths",
        f"cachekeeper restore {text} --root {there}",
    )


def _plan_root(
    keeper: Keeper, root: Root, contents: tuple[Content, ...], *, force: bool
) -> RootPlan:
    recover(keeper, root)
    with keeper.reading(root):
        looker = Looker(keeper, outline_of(keeper, root), pinned_paths(keeper, root, contents))
        units = [compare_unit(looker, content) for content in contents]
        looker.remember()
    restored = [unit for unit in units if not _may_stay(unit)]
    unchanged = [unit for unit in units if _may_stay(unit)]
    steps = _steps(restored)
    for unit in restored:
        _refuse_broken(unit.content, force=force)
    for step in steps:
        _refuse_mounts(root, step)
        check_present(keeper.store, step.family)
        check_owners(keeper.store, step.family, os.geteuid(), {os.getegid(), *os.getgroups()})
    users = _users(root, steps)
    _refuse_users(users, force=force)
    return RootPlan(root, steps, tuple(restored), tuple(unchanged), users)


def _refuse_changed(plan: RootPlan) -> None:
    """Refuse a plan whose root is no longer as it was seen; the caller holds the root.

    Also a family that stood right, and is no step: left so it could make the unit a mixture.
    """
    refuse_unfinished(plan.root)
    for unit in (*plan.restored, *plan.unchanged):
        for one in unit.families:
            if not _is_as_seen(plan.root, one):
                raise BusyError(
                    f"{shown(one.family.path)} changed since the restore was planned",
                    "run it again when its writer is done",
                )


def _is_as_seen(root: Root, one: FamilyComparison) -> bool:
    """Tell whether a family is what was hashed in this command; what did not change is not read."""
    top = os.path.join(root.real, one.family.path)
    if one.seen is None or not os.path.lexists(top):
        return one.seen is None and not os.path.lexists(top)
    options = CaptureOptions(memory=one.seen.content.memory)
    now = capture_family(top, one.seen.place, options)
    return now.manifest.build_id == one.seen.content.manifest.build_id


def _may_stay(unit: UnitComparison) -> bool:
    """Tell whether a unit is left alone: intact or only grown; equal where exactness is asked.

    Not where a file has another mode or owner than it was kept with: vLLM may be unable to read it.
    """
    if any(one.odd for one in unit.families):
        return False
    if not unit.content.exact:
        return unit.drift in HARMLESS
    return all(one.seen is not None and not one.changes for one in unit.families)


def _steps(units: Iterable[UnitComparison]) -> tuple[FamilyStep, ...]:
    """Return the families to exchange, each path once; one that stands exactly right is left."""
    steps: dict[bytes, FamilyStep] = {}
    for unit in units:
        for one in unit.families:
            known = steps.get(one.family.path)
            if known is not None and known.family.build != one.family.build:
                raise RefusedError(
                    f"two references want different content at {shown(one.family.path)}",
                    "restore them one after the other",
                )
            steps[one.family.path] = FamilyStep(one.family, one.seen)
    return tuple(step for step in steps.values() if not _stands(step))


def _stands(step: FamilyStep) -> bool:
    """Tell whether a family stands exactly as it was kept, modes, owners and times included."""
    seen = step.seen
    return seen is not None and (
        (seen.content.manifest.build_id, seen.content.attributes.digest)
        == (step.family.build, step.family.attributes)
    )


def _refuse_broken(content: Content, *, force: bool) -> None:
    for family in content.families:
        if family.problems and not force:
            codes = ", ".join(family.problems)
            raise RefusedError(
                f"{content.name} was stored broken: {shown(family.path)}: {codes}",
                "choose another build, or give --force to put it back as it was",
            )


def _refuse_mounts(root: Root, step: FamilyStep) -> None:
    """Refuse a family with a mount inside: exchanged, the mount would guard the old tree."""
    top = os.path.join(root.real, step.family.path)
    for mount in mounts_below(top):
        raise RefusedError(
            f"{shown(mount)} is a mount point inside {shown(step.family.path)}",
            "unmount it, restore, mount it again; nothing was changed",
        )


def _links(units: Iterable[UnitComparison]) -> tuple[Link, ...]:
    return tuple(dict.fromkeys(link for unit in units for link in unit.content.links))


def _users(root: Root, steps: Iterable[FamilyStep]) -> LiveUsers:
    paths = tuple(os.path.join(root.real, step.family.path) for step in steps)
    if not paths:
        return LiveUsers((), ())
    return find_live_users(Search(root.real, paths, vllm_cache_root))


def _refuse_users(users: LiveUsers, *, force: bool) -> None:
    if users.users and not force:
        first = users.users[0]
        more = f" and {len(users.users) - 1} more" if len(users.users) > 1 else ""
        raise BusyError(
            f"process {first.pid} ({first.title}) {first.why}{more}",
            "stop it, restore, start it again; --force restores under it",
        )
