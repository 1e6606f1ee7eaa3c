"""cachekeeper diff."""

from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, count, notices
from cachekeeper.core.paths import shown
from cachekeeper.ops.diff import DiffResult, FamilyDiff, diff

_LEVELS = ("sources", "graph", "codegen", "choices", "binaries")
_MOST = 20


@click.command("diff")
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@common_options
@click.pass_context
def command(ctx: click.Context, first: str, second: str) -> int:
    """Show how two contents differ, file by file.

    Exit 0 when nothing but mutable files differs, 1 otherwise. What other bytes mean is not looked
    at by this version: the levels are then unknown (null), never equal.
    """
    with open_keeper(ctx, needs_roots=False) as keeper:
        result = diff(keeper, first, second)
        notices(ctx, keeper)
    answer(ctx, "diff", _json(result), _text(result))
    return 0 if result.same_meaning else 1


def _json(result: DiffResult) -> dict[str, Any]:
    return {
        "same_family": result.same_family,
        "same_build": result.same_build,
        "levels": {level: {"equal": result.same_meaning} for level in _LEVELS},
        "files": {
            kind: [
                {
                    "family": family.key,
                    "path": shown(change.path),
                    "before": change.before,
                    "after": change.after,
                    "mutable": change.mutable,
                }
                for family in result.families
                for change in family.changes
                if change.change == kind
            ]
            for kind in ("added", "removed", "changed")
        },
        "families": [
            {
                "kind": one.kind,
                "key": one.key,
                "other_key": one.other_key,
                "only": one.only,
                "changes": len(one.changes),
            }
            for one in result.families
        ],
    }


def _text(result: DiffResult) -> Iterator[str]:
    family = "same family" if result.same_family else "other family"
    build = "same build" if result.same_build else "other build"
    meaning = "" if result.same_build else (
        ": nothing but mutable files differs" if result.same_meaning else ": other bytes"
    )  # fmt: skip
    yield f"{family}, {build}{meaning}"
    for one in result.families:
        yield from _family_text(one)


def _family_text(one: FamilyDiff) -> Iterator[str]:
    other = f" - {one.other_key[:16]}" if one.other_key != one.key else ""
    title = f"{one.kind} {shown(one.path) if one.kind == 'other' else one.key[:16]}{other}"
    if one.only is not None:
        yield f"{title}: only in {one.only}"
        return
    if not one.changes:
        yield f"{title}: equal"
        return
    verb = "differs" if len(one.changes) == 1 else "differ"
    yield f"{title}: {count(len(one.changes), 'file')} {verb}"
    for change in one.changes[:_MOST]:
        mutable = " (mutable)" if change.mutable else ""
        yield f"  {change.change:<8} {shown(change.path)}{mutable}"
        if change.change == "changed":
            yield f"           A {change.before}"
            yield f"           B {change.after}"
    if len(one.changes) > _MOST:
        yield f"  and {len(one.changes) - _MOST} more (--json lists all)"
