"""cachekeeper rebuild."""

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, count
from cachekeeper.ops.rebuild import rebuild


@click.command("rebuild")
@common_options
@click.pass_context
def command(ctx: click.Context) -> int:
    """Make the catalogue anew from the records; nothing is lost by it."""
    with open_keeper(ctx, needs_roots=False) as keeper:
        counts = rebuild(keeper)
    data = {
        "records": counts.records,
        "snapshots": counts.snapshots,
        "pins": counts.pins,
        "runs": counts.runs,
    }
    parts = f"{count(counts.snapshots, 'snapshot')}, {count(counts.pins, 'pin')}"
    line = f"{count(counts.records, 'record')}: {parts}"
    answer(ctx, "rebuild", data, [line])
    return 0
