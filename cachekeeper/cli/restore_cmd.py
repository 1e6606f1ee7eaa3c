"""cachekeeper restore."""

from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.cli.options import common_options, given, open_keeper
from cachekeeper.cli.out import answer, count, notices, size_text
from cachekeeper.core.paths import shown
from cachekeeper.keeper.live import UnitComparison
from cachekeeper.ops.restore import RestorePlan, RestoreResult, execute_restore, plan_restore


@click.command("restore")
@click.argument("references", metavar="[REF]...", nargs=-1)
@click.option("--companions", is_flag=True, help="Companion roots too (none are kept yet).")
@click.option("--force", is_flag=True, help="Restore under live users, and content stored broken.")
@click.option("--dry-run", is_flag=True, help="Say what would be restored, change nothing.")
@common_options
@click.pass_context
def command(
    ctx: click.Context,
    references: tuple[str, ...],
    companions: bool,  # noqa: ARG001  accepted: this version keeps no companion roots yet
    force: bool,
    dry_run: bool,
) -> int:
    """Put stored content back: whole units, all ranks, owner, mode and times kept.

    Without REF: the floors of this root. What stands there goes into the store first, so that
    restore b:BUILD undoes it. Intact and grown units are left alone.
    """
    with open_keeper(ctx) as keeper:
        plan = plan_restore(keeper, references, force=force)
        result = RestoreResult(plan, (), ()) if dry_run else execute_restore(keeper, plan)
        notices(ctx, keeper)
    if not given(ctx, "quiet"):
        for root in plan.roots:
            if root.users.unreadable:
                number = count(len(root.users.unreadable), "running program")
                click.echo(f"note: {number} could not be looked into", err=True)
    answer(ctx, "restore", _json(result, dry_run=dry_run), _text(result, dry_run=dry_run))
    return 1 if result.findings else 0


def _json(result: RestoreResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "restored": [_unit(unit) for root in result.plan.roots for unit in root.restored],
        "unchanged": [_unit(unit) for root in result.plan.roots for unit in root.unchanged],
        "displaced": _displaced(result, dry_run=dry_run),
        "preflight": [],
        "findings": list(result.findings),
        "users": [
            {"pid": user.pid, "title": user.title, "why": user.why}
            for root in result.plan.roots
            for user in root.users.users
        ],
        "unreadable_processes": sum(len(root.users.unreadable) for root in result.plan.roots),
    }


def _unit(unit: UnitComparison) -> dict[str, Any]:
    return {
        "name": unit.content.name,
        "key": unit.content.key,
        "drift": unit.drift,
        "families": [
            {
                "kind": one.family.kind,
                "key": one.family.key,
                "path": shown(one.family.path),
                "build": one.family.build,
            }
            for one in unit.families
        ],
    }


def _displaced(result: RestoreResult, *, dry_run: bool) -> list[dict[str, Any]]:
    if dry_run:
        return [
            {
                "path": shown(step.family.path),
                "build": step.seen.content.manifest.build_id,
                "snapshot": None,
            }
            for root in result.plan.roots
            for step in root.steps
            if step.seen is not None
        ]
    return [
        {"path": shown(one.path), "build": one.build, "snapshot": f"s:{one.snapshot}"}
        for one in result.displaced
    ]


def _text(result: RestoreResult, *, dry_run: bool) -> Iterator[str]:
    done = "would restore" if dry_run else "restored"
    for root in result.plan.roots:
        for unit in root.restored:
            size = sum(one.family.size_bytes for one in unit.families)
            was = f"{unit.content.name} (was {unit.drift})"
            yield f"{done} {was}: {unit.content.key} {size_text(size)}"
        for unit in root.unchanged:
            yield f"left alone {unit.content.name} ({unit.drift}): {unit.content.key}"
    for one in _displaced(result, dry_run=dry_run):
        kept = "would go to the store" if dry_run else "is in the store"
        yield f"  what stood at {one['path']} {kept}"
        yield f"    undo with: cachekeeper restore b:{one['build'][:16]}"
    for finding in result.findings:
        yield f"finding {finding}"
    if _nothing(result.plan):
        yield "nothing to restore: no floor is pinned in this root (cachekeeper pin HASH)"


def _nothing(plan: RestorePlan) -> bool:
    return not any(root.restored or root.unchanged for root in plan.roots)
