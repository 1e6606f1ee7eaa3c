"""snapshot: the bytes of all roots into the store.

Guarantee: the record is written after every byte it names is durable; a killed snapshot leaves
objects that nobody refers to, and nothing else. Broken families are stored too, and marked.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cachekeeper.core.paths import shown
from cachekeeper.core.problem import Problem
from cachekeeper.core.record import Record
from cachekeeper.keeper.facts import (
    FoundProblem,
    RootFacts,
    keep_seen,
    problems_in,
    seen_family,
    snapshot_body,
)
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily
from cachekeeper.keeper.live import Looker, outline_of, pinned_paths
from cachekeeper.keeper.recovery import recover, refuse_unfinished
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import Outline, Seen, rank_values


@dataclass(frozen=True)
class SnapshotPlan:
    """The roots to read, with what stands there by name."""

    roots: tuple[Outline, ...]
    message: str | None
    require_ranks: int | None


@dataclass(frozen=True)
class SnapshotResult:
    """What was stored; `record` is None after a dry run. Sizes are bytes of file content."""

    record: Record | None
    families: tuple[tuple[Root, KeptFamily], ...]
    new_bytes: int
    total_bytes: int
    skipped: dict[str, int]
    problems: tuple[FoundProblem, ...]


def plan_snapshot(
    keeper: Keeper, message: str | None = None, require_ranks: int | None = None
) -> SnapshotPlan:
    """Return what a snapshot will read; finishes killed restores first."""
    roots = keeper.roots()
    if keeper.settings.store is not None:
        for root in roots:
            recover(keeper, root)
    return SnapshotPlan(tuple(outline_of(keeper, root) for root in roots), message, require_ranks)


def preview_snapshot(keeper: Keeper, plan: SnapshotPlan) -> SnapshotResult:
    """Return what executing would store, reading but not writing."""
    return _result(None, [_look(keeper, one.root, plan, keep=False) for one in plan.roots])


def execute_snapshot(keeper: Keeper, plan: SnapshotPlan) -> SnapshotResult:
    """Store all roots and record it; raises BusyError, OSError, KeeperError."""
    store = keeper.make_store()
    with store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        parts = [_look(keeper, one.root, plan, keep=True) for one in plan.roots]
        facts = [RootFacts(part.root, part.kept, part.outline.links) for part in parts]
        store.objects.sync()
        body = snapshot_body("snapshot", plan.message, facts, keeper.settings.origin)
        record = store.records.append("snapshot", body)
        for part in parts:
            part.looker.remember()
    return _result(record, parts)


@dataclass(frozen=True)
class _Part:
    """One root as it was read."""

    root: Root
    outline: Outline
    looker: Looker
    seen: tuple[Seen, ...]
    kept: tuple[KeptFamily, ...]
    unsaved_bytes: int


def _look(keeper: Keeper, root: Root, plan: SnapshotPlan, *, keep: bool) -> _Part:
    with keeper.reading(root):
        refuse_unfinished(root)
        sight = outline_of(keeper, root)  # anew: a restore may have brought a family since the plan
        looker = Looker(keeper, sight, pinned_paths(keeper, root), objects_too=keep)
        seen = []
        for number, place in enumerate(sight.places):
            keeper.settings.progress(f"reading {shown(root.real)}", number, len(sight.places))
            seen.append(looker.see(place))
        for key in sorted(place.key for place in sight.places if place.kind == "aot"):
            checked = {one.place.path: one for one in looker.see_unit(sight.unit_places(key))}
            seen = [checked.get(one.place.path, one) for one in seen]
    seen = [require_ranks(one, plan.require_ranks) for one in seen]
    kept = tuple(keep_seen(keeper.store, one) if keep else seen_family(one) for one in seen)
    unsaved = 0 if keep else _unsaved_bytes(keeper, seen)
    return _Part(root, sight, looker, tuple(seen), kept, unsaved)


def require_ranks(seen: Seen, required: int | None) -> Seen:
    """Return an aot family with a problem more where it has not the required ranks 0 … N-1."""
    if required is None or seen.place.kind != "aot":
        return seen
    numbers = {rank.rank for rank in rank_values(seen.ranks)}
    lacking = sorted(set(range(required)) - numbers)
    if not lacking:
        return seen
    detail = f"rank {', '.join(map(str, lacking))} of {required} is not there"
    return replace(
        seen, problems=(*seen.problems, Problem("missing-rank", b"", detail, "incomplete"))
    )


def _unsaved_bytes(keeper: Keeper, seen: Iterable[Seen]) -> int:
    """Return the bytes that the store does not have, each content once."""
    sizes = {e.digest: e.size_bytes for one in seen for e in one.content.manifest.entries}
    if not keeper.has_store:
        return sum(sizes.values())
    objects = keeper.store.objects
    return sum(size for digest, size in sizes.items() if not objects.has(digest, size))


def _result(record: Record | None, parts: list[_Part]) -> SnapshotResult:
    seen = [one for part in parts for one in part.seen]

    new = (
        sum(one.content.new_bytes for one in seen)
        if record
        else sum(p.unsaved_bytes for p in parts)
    )
    return SnapshotResult(
        record=record,
        families=tuple((part.root, family) for part in parts for family in part.kept),
        new_bytes=new,
        total_bytes=sum(one.content.manifest.size_bytes for one in seen),
        skipped={
            name: sum(one.content.left_out[name] for one in seen) for name in ("lock", "temporary")
        },
        problems=tuple(found for part in parts for found in problems_in(part.root, part.seen)),
    )
