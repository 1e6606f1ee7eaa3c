"""cachekeeper scan (ls)."""

from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import (
    answer,
    count,
    notices,
    problem_json,
    problem_lines,
    size_text,
    table,
)
from cachekeeper.core.paths import shown
from cachekeeper.keeper.facts import FoundProblem
from cachekeeper.ops.scan import ScannedFamily, ScannedRoot, scan


@click.command("scan")
@common_options
@click.pass_context
def command(ctx: click.Context) -> int:
    """Show the units and families in the cache roots, with their drift against the pins.

    Works without a store. Exit 0, whatever is found: verify is the command that judges.
    """
    with open_keeper(ctx) as keeper:
        roots = scan(keeper)
        notices(ctx, keeper)
    data = {
        "families": [_family_json(root, family) for root in roots for family in root.families],
        "roots": [_root_json(root) for root in roots],
        "warnings": [text for root in roots for text in root.warnings],
    }
    answer(ctx, "scan", data, _text(roots))
    return 0


def _root_json(root: ScannedRoot) -> dict[str, Any]:
    links = root.outline.links
    return {
        "path": shown(root.root.given),
        "real_path": shown(root.root.real),
        "families": len(root.families),
        "files": sum(family.files for family in root.families),
        "bytes": sum(family.size_bytes for family in root.families),
        "links": [
            {"aot": link.aot, "compile": link.compile, "source": link.source, "detail": link.detail}
            for link in links
        ],
    }


def _family_json(root: ScannedRoot, family: ScannedFamily) -> dict[str, Any]:
    place = family.place
    return {
        "root": shown(root.root.given),
        "kind": place.kind,
        "key": place.key,
        "path": shown(place.path),
        "ranks": list(family.ranks),
        "files": family.files,
        "bytes": family.size_bytes,
        "build": family.build,
        "unit": family.units[0] if family.units else None,
        "units": list(family.units),
        "pins": list(family.pins),
        "drift": family.drift,
        "recognised": place.recognised,
        "problems": [problem_json(found) for found in _problems(root, family)],
    }


def _text(roots: tuple[ScannedRoot, ...]) -> Iterator[str]:
    for root in roots:
        yield f"root {shown(root.root.given)}"
        rows = [_row(family) for family in _in_unit_order(root)]
        if rows:
            headers = ("unit", "kind", "key", "ranks", "files", "size", "build", "pin", "drift")
            yield table(headers, rows)
        else:
            yield "  no families: vLLM has compiled nothing here yet"
        for link in root.outline.links:
            yield f"link {link.aot[:8]} - {link.compile} ({link.source}: {link.detail})"
        yield from problem_lines([p for f in root.families for p in _problems(root, f)])
        for warning in root.warnings:
            yield f"warning {warning}"
        yield f"{count(len(rows), 'family')}, {size_text(sum(f.size_bytes for f in root.families))}"


def _problems(root: ScannedRoot, family: ScannedFamily) -> list[FoundProblem]:
    return [FoundProblem(root.root, family.place.path, problem) for problem in family.problems]


def _in_unit_order(root: ScannedRoot) -> list[ScannedFamily]:
    """Return families unit by unit, each aot family before its partners, other entries last."""
    order = {"aot": 0, "compile": 1, "other": 2}
    return sorted(
        root.families,
        key=lambda f: (not f.units, f.units[:1], order[f.place.kind], f.place.key),
    )


def _row(family: ScannedFamily) -> tuple[str, ...]:
    key = family.place.key
    return (
        ", ".join(unit[:8] for unit in family.units) or "-",
        family.place.kind,
        shown(family.place.path) if family.place.kind == "other" else key[:16],
        str(len(family.ranks)) if family.ranks else "-",
        str(family.files),
        size_text(family.size_bytes),
        f"b:{family.build[:12]}" if family.build else "-",
        ", ".join(family.pins) or "-",
        family.drift or "-",
    )
