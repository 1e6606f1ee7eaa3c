"""cachekeeper check."""

from collections.abc import Iterator

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, count
from cachekeeper.ops.check import CheckResult, check


@click.command("check")
@common_options
@click.pass_context
def command(ctx: click.Context) -> int:
    """Re-hash every object and record of the store, and name the pins and snapshots hit."""
    with open_keeper(ctx, needs_roots=False) as keeper:
        result = check(keeper)
    data = {
        "ok": not result.problems,
        "objects": result.objects,
        "records": result.records,
        "problems": [
            {
                "code": problem.code,
                "subject": problem.subject,
                "detail": problem.detail,
                "pins": list(problem.pins),
                "snapshots": list(problem.snapshots),
            }
            for problem in result.problems
        ],
    }
    answer(ctx, "check", data, _text(result))
    return 1 if result.problems else 0


def _text(result: CheckResult) -> Iterator[str]:
    for problem in result.problems:
        yield f"{problem.code} {problem.subject}: {problem.detail}"
        if problem.pins:
            yield f"  hits the pins {', '.join(problem.pins)}"
        if problem.snapshots:
            yield f"  hits the snapshots {', '.join(problem.snapshots)}"
    whole = count(len(result.problems), "problem") if result.problems else "all whole"
    yield f"{count(result.objects, 'object')} and {count(result.records, 'record')}: {whole}"
