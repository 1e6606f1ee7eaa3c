"""cachekeeper verify."""

from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, count, notices, problem_json, problem_lines
from cachekeeper.core.difference import FileChange
from cachekeeper.core.paths import shown
from cachekeeper.keeper.live import FamilyComparison, UnitComparison
from cachekeeper.ops.verify import VerifyResult, verify

_MOST = 20


@click.command("verify")
@click.argument("references", metavar="[REF]...", nargs=-1)
@click.option("--strict", is_flag=True, help="Growth under new keys is a finding too.")
@common_options
@click.pass_context
def command(ctx: click.Context, references: tuple[str, ...], strict: bool) -> int:
    """Compare live units with their pins by full digest, and check every family against itself.

    Exit 0 for intact and grown units without problems, 1 for every other drift or damage.
    """
    with open_keeper(ctx) as keeper:
        result = verify(keeper, references, strict=strict)
        notices(ctx, keeper)
    answer(ctx, "verify", _json(result), _text(result))
    return 0 if result.ok else 1


def _json(result: VerifyResult) -> dict[str, Any]:
    return {
        "ok": result.ok,
        "checked": result.checked,
        "pins": [unit_json(unit) for unit in result.units],
        "problems": [
            *(problem_json(found) for found in result.problems),
            *(
                {"code": "unfinished-restore", "path": "", "detail": text, "severity": "incomplete"}
                for text in result.unfinished
            ),
        ],
    }


def unit_json(unit: UnitComparison) -> dict[str, Any]:
    """Return a unit's comparison as JSON shows it."""
    return {
        "name": unit.content.name,
        "key": unit.content.key,
        "drift": unit.drift,
        "families": [
            {"kind": one.family.kind, "key": one.family.key, "drift": one.drift}
            for one in unit.families
        ],
        "changed": [
            change_json(one, change)
            for one in unit.families
            for change in one.changes
            if not change.mutable
        ],
        "mutable": [
            change_json(one, change)
            for one in unit.families
            for change in one.changes
            if change.mutable
        ],
        "new_families": [
            {"kind": place.kind, "key": place.key, "path": shown(place.path)}
            for place in unit.newcomers
        ],
    }


def change_json(one: FamilyComparison, change: FileChange) -> dict[str, Any]:
    """Return one file's change: path in the family, and the digests before and after."""
    return {
        "family": one.family.key,
        "path": shown(change.path),
        "change": change.change,
        "before": change.before,
        "after": change.after,
    }


def _text(result: VerifyResult) -> Iterator[str]:
    for unit in result.units:
        yield from _unit_text(unit)
    yield from problem_lines(result.problems)
    for text in result.unfinished:
        yield f"problem {text} (unfinished-restore)"
    pins = count(len(result.units), "pin")
    verdict = "all of it holds" if result.ok else "findings above"
    yield f"{pins} and {count(result.checked, 'family')} checked: {verdict}"


def _unit_text(unit: UnitComparison) -> Iterator[str]:
    yield f"{unit.drift:<12}{unit.content.name}  {unit.content.key}"
    for one in unit.families:
        if one.drift == "gone":
            yield f"  {shown(one.family.path)} is not there"
        real = [change for change in one.changes if not change.mutable]
        for change in real[:_MOST]:
            yield f"  {change.change:<8} {one.family.key[:10]}/{shown(change.path)}"
            if change.change == "changed":
                yield f"           pinned {change.before}"
                yield f"           live   {change.after}"
        if len(real) > _MOST:
            yield f"  and {len(real) - _MOST} more (--json lists all)"
        rewritten = len(one.changes) - len(real)
        if rewritten:
            what = count(rewritten, "tuning record")
            yield f"  {what} rewritten by a warm load in {one.family.key[:10]}: no drift"
    for place in unit.newcomers:
        yield f"  new family beside it: {shown(place.path)}"
