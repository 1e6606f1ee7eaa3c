"""cachekeeper pin."""

from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, notices, size_text, table
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.core.status import STATUSES
from cachekeeper.ops.pin import (
    SETTLED_UNKNOWN,
    PinOptions,
    PinResult,
    execute_pin,
    plan_pin,
    preview_pin,
)


@click.command("pin")
@click.argument("hash", metavar="HASH")
@click.option("--name", metavar="N", help="The pin's name [first 8 characters of the hash].")
@click.option(
    "--status",
    default="floor",
    show_default=True,
    metavar="S",
    help=f"One of {', '.join(STATUSES)}.",
)
@click.option("--reason", metavar="T", help="Why it is worth keeping.")
@click.option("--from", "snapshot", metavar="SNAPSHOT", help="Pin what a snapshot holds.")
@click.option("--dry-run", is_flag=True, help="Say what would be pinned, store nothing.")
@common_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    hash: str,  # noqa: A002  the contract's word
    dry_run: bool,
    **options: Any,  # noqa: ANN401  the fields of PinOptions
) -> int:
    """Snapshot and protect the whole unit of a graph hash, all ranks, as it stands now.

    HASH is a graph hash or any unique prefix of 4 characters or more; a 10-hex key leads to its
    unit. An incomplete or damaged unit is refused, and so is a second floor of one unit: exit 3.
    """
    with open_keeper(ctx) as keeper:
        plan = plan_pin(keeper, hash, PinOptions(**options))
        result = preview_pin(keeper, plan) if dry_run else execute_pin(keeper, plan)
        notices(ctx, keeper)
    answer(ctx, "pin", _json(result, dry_run=dry_run), _text(result))
    return 0


def _json(result: PinResult, *, dry_run: bool) -> dict[str, Any]:
    plan = result.plan
    return {
        "name": plan.name,
        "key": plan.key,
        "build": result.unit[0].build,
        "unit": unit_json(result),
        "settled": False,
        "status": plan.status,
        "reason": plan.reason,
        "root": shown(parse_path(plan.root)),
        "ranks": {"expected": list(result.unit[0].ranks), "source": "assumed"},
        "new_bytes": result.new_bytes,
        "warnings": list(result.notes),
        "dry_run": dry_run,
    }


def unit_json(result: PinResult) -> list[dict[str, Any]]:
    """Return the families of a pinned unit, each compile family with how its link is known."""
    links = {link.compile: link for link in result.plan.links}
    return [
        {
            "kind": family.kind,
            "key": family.key,
            "path": shown(family.path),
            "build": family.build,
            "files": family.files,
            "bytes": family.size_bytes,
            "ranks": list(family.ranks),
            "link": {"source": links[family.key].source, "detail": links[family.key].detail}
            if family.key in links
            else None,
        }
        for family in result.unit
    ]


def _text(result: PinResult) -> Iterator[str]:
    plan = result.plan
    done = "pinned" if result.record else "dry run: would pin"
    yield f"{done} {plan.name} ({plan.status}): {plan.key}"
    links = {link.compile: link for link in plan.links}
    yield table(
        ("kind", "key", "ranks", "files", "size", "build", "known by"),
        [
            (
                family.kind,
                family.key[:16],
                str(len(family.ranks)),
                str(family.files),
                size_text(family.size_bytes),
                f"b:{family.build[:12]}",
                f"{links[family.key].source}: {links[family.key].detail}"
                if family.key in links
                else "its hash",
            )
            for family in result.unit
        ],
    )
    for note in result.notes:
        yield f"warning {note}"
    yield f"unsettled: {SETTLED_UNKNOWN}"
    if result.record:
        new = size_text(result.new_bytes)
        yield f"{new} new in the store; cachekeeper restore {plan.name} puts it back"
