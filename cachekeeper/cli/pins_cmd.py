"""cachekeeper pins."""

import click

from cachekeeper.catalogue.rows import PinRow
from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, notices, table
from cachekeeper.core.drift import Drift
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.ops.pins import pin_drifts, pin_rows


@click.command("pins")
@common_options
@click.pass_context
def command(ctx: click.Context) -> int:
    """List the pins, newest first, with the drift of those whose root is at hand."""
    with open_keeper(ctx, needs_roots=False) as keeper:
        rows = pin_rows(keeper)
        drifts = pin_drifts(keeper) if rows else {}
        notices(ctx, keeper)
    data = {"pins": [pin_json(row, drifts.get(row.digest)) for row in rows]}
    lines = [_row(row, drifts.get(row.digest)) for row in rows]
    headers = ("name", "status", "key", "build", "families", "drift", "root", "pinned at")
    text = [table(headers, lines)] if lines else ["no pins: cachekeeper pin HASH makes one"]
    answer(ctx, "pins", data, text)
    return 0


def _row(row: PinRow, drift: Drift | None) -> tuple[str, ...]:
    return (
        row.name,
        row.status,
        row.key[:16],
        f"b:{row.families[0].build[:12]}",
        str(len(row.families)),
        drift or "-",
        shown(parse_path(row.root)),
        row.at[:19] + "Z",
    )


def pin_json(row: PinRow, drift: Drift | None) -> dict[str, object]:
    """Return a pin as JSON shows it."""
    return {
        "name": row.name,
        "kind": row.families[0].kind,
        "key": row.key,
        "build": row.families[0].build,
        "unit": [
            {
                "kind": family.kind,
                "key": family.key,
                "path": shown(parse_path(family.path)),
                "build": family.build,
            }
            for family in row.families
        ],
        "status": row.status,
        "settled": row.settled,
        "drift": drift,
        "reason": row.reason or None,
        "root": shown(parse_path(row.root)),
        "at": row.at,
        "snapshot": f"s:{row.snapshot}",
    }
