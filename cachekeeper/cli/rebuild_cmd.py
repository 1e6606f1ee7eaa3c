"""cachekeeper rebuild."""

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer
from cachekeeper.ops.history import rebuild


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
    line = f"{counts.records} records: {counts.snapshots} snapshots, {counts.pins} pins"
    answer(ctx, "rebuild", data, [line])
    return 0
