"""cachekeeper log."""

import click

from cachekeeper.catalogue.rows import EventRow
from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, table
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.ops.log import events


@click.command("log")
@click.argument("reference", metavar="[REF]", required=False)
@common_options
@click.pass_context
def command(ctx: click.Context, reference: str | None) -> int:
    """Show what happened, newest first; with REF only what concerns it."""
    with open_keeper(ctx, needs_roots=False) as keeper:
        rows = events(keeper, reference)
    data = {
        "events": [
            {
                "sequence": row.sequence,
                "at": row.at,
                "kind": row.kind,
                "id": f"s:{row.digest}" if row.kind == "snapshot" else row.digest,
                "subject": row.subject,
                "detail": row.detail,
                "reason": row.reason,
                "root": shown(parse_path(row.root)) if row.root else None,
            }
            for row in rows
        ]
    }
    lines = [_row(row) for row in rows]
    text = [table(("at", "what", "subject", "detail"), lines)] if lines else ["nothing yet"]
    answer(ctx, "log", data, text)
    return 0


def _row(row: EventRow) -> tuple[str, ...]:
    subject, detail = row.subject, row.detail
    if row.kind == "restore":
        subject, detail = subject or "the floors", f"in {shown(parse_path(row.root or '%'))}"
    elif row.kind in ("pin", "status") and row.reason:
        detail = f"{detail}: {row.reason}"
    elif not detail and row.reason != row.kind:
        detail = row.reason
    return row.at[:19] + "Z", row.kind, subject, detail
