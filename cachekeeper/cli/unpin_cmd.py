"""cachekeeper unpin."""

import click

from cachekeeper.cli.options import common_options, confirmed, open_keeper
from cachekeeper.cli.out import answer
from cachekeeper.ops.unpin import execute_unpin, plan_unpin


@click.command("unpin")
@click.argument("name", metavar="NAME")
@click.option("--dry-run", is_flag=True, help="Say what would be unpinned, change nothing.")
@common_options
@click.pass_context
def command(ctx: click.Context, name: str, dry_run: bool) -> int:
    """Remove a pin by its exact name; its bytes stay in the store until garbage collection.

    Asks on a terminal; without one it needs --yes.
    """
    with open_keeper(ctx, needs_roots=False) as keeper:
        pin = plan_unpin(keeper, name)
        if not dry_run:
            confirmed(ctx, f"Unpin {pin.name} ({pin.status}, {pin.key[:16]})?")
            execute_unpin(keeper, pin)
    data = {"name": pin.name, "key": pin.key, "status": pin.status, "dry_run": dry_run}
    done = "dry run: would unpin" if dry_run else "unpinned"
    answer(ctx, "unpin", data, [f"{done} {pin.name} ({pin.status}, {pin.key[:16]})"])
    return 0
