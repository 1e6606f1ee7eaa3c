"""cachekeeper mark."""

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer
from cachekeeper.ops.mark import execute_mark, plan_mark


@click.command("mark")
@click.argument("reference", metavar="REF")
@click.argument("status", metavar="STATUS")
@click.option("--reason", required=True, metavar="T", help="Why.")
@click.option("--evidence", metavar="FILE|URL", help="What shows it.")
@click.option("--dry-run", is_flag=True, help="Say what would be appended, change nothing.")
@common_options
@click.pass_context
def command(
    ctx: click.Context,
    reference: str,
    status: str,
    reason: str,
    evidence: str | None,
    dry_run: bool,
) -> int:
    """Append a status to a pin, build or snapshot; the history is never rewritten."""
    with open_keeper(ctx, needs_roots=False) as keeper:
        plan = plan_mark(keeper, reference, status, reason, evidence)
        if not dry_run:
            execute_mark(keeper, plan)
    data = {
        "ref": reference,
        "status": plan.status,
        "previous": plan.previous,
        "reason": plan.reason,
        "dry_run": dry_run,
    }
    done = "dry run: would mark" if dry_run else "marked"
    was = f" (was {plan.previous})" if plan.previous else ""
    answer(ctx, "mark", data, [f"{done} {reference} {plan.status}{was}: {plan.reason}"])
    return 0
