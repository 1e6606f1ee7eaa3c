"""cachekeeper snapshot."""

from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import (
    answer,
    count,
    notices,
    problem_json,
    problem_lines,
    size_text,
    table,
)
from cachekeeper.core.paths import shown
from cachekeeper.ops.snapshot import (
    SnapshotResult,
    execute_snapshot,
    plan_snapshot,
    preview_snapshot,
)


@click.command("snapshot")
@click.option("-m", "--message", metavar="TEXT", help="Why this snapshot was taken.")
@click.option(
    "--require-ranks", metavar="N", type=click.IntRange(min=1), help="Ranks each unit must have."
)
@click.option(
    "--no-companions", is_flag=True, help="Leave companion roots out (none are kept yet)."
)
@click.option("--dry-run", is_flag=True, help="Say what would be stored, store nothing.")
@common_options
@click.pass_context
def command(
    ctx: click.Context,
    message: str | None,
    require_ranks: int | None,
    no_companions: bool,  # noqa: ARG001  accepted: this version keeps no companion roots yet
    dry_run: bool,
) -> int:
    """Put the bytes of all cache roots into the store.

    Broken families are stored too, marked, and said: exit 1. A snapshot of what did not change
    reads no file of an unpinned family and stores nothing twice.
    """
    with open_keeper(ctx) as keeper:
        plan = plan_snapshot(keeper, message, require_ranks)
        result = preview_snapshot(keeper, plan) if dry_run else execute_snapshot(keeper, plan)
        notices(ctx, keeper)
    answer(ctx, "snapshot", _json(result, dry_run=dry_run), _text(result))
    return 1 if _findings(result) else 0


def _findings(result: SnapshotResult) -> bool:
    return any(found.problem.is_broken for found in result.problems)


def _json(result: SnapshotResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "id": f"s:{result.record.digest}" if result.record else None,
        "dry_run": dry_run,
        "builds": [
            {
                "root": shown(root.given),
                "kind": family.kind,
                "key": family.key,
                "path": shown(family.path),
                "build": family.build,
                "files": family.files,
                "bytes": family.size_bytes,
                "ranks": list(family.ranks),
            }
            for root, family in result.families
        ],
        "new_bytes": result.new_bytes,
        "total_bytes": result.total_bytes,
        "skipped": result.skipped,
        "problems": [problem_json(found) for found in result.problems],
    }


def _text(result: SnapshotResult) -> Iterator[str]:
    rows = [
        (
            family.kind,
            shown(family.path) if family.kind == "other" else family.key[:16],
            str(family.files),
            size_text(family.size_bytes),
            f"b:{family.build[:12]}",
        )
        for _root, family in result.families
    ]
    yield table(("kind", "key", "files", "size", "build"), rows)
    yield from problem_lines(result.problems)
    left = [count(number, f"{name} file") for name, number in result.skipped.items() if number]
    if left:
        yield f"no part of the build ids: {', '.join(left)}"
    name = f"s:{result.record.digest[:16]}" if result.record else "dry run: nothing was stored;"
    yield (
        f"{name} {count(len(rows), 'family')}, {size_text(result.total_bytes)}, "
        f"{size_text(result.new_bytes)} new"
    )
