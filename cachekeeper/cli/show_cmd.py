"""cachekeeper show."""

from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.catalogue.rows import StatusRow
from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, size_text, table
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.keeper.resolve import Content, resolve
from cachekeeper.ops.history import statuses


@click.command("show")
@click.argument("reference", metavar="REF")
@common_options
@click.pass_context
def command(ctx: click.Context, reference: str) -> int:
    """Show all that is known of a pin, hash, build (b:...) or snapshot (s:...)."""
    with open_keeper(ctx, needs_roots=False) as keeper:
        content = resolve(keeper, reference)
        history = statuses(keeper, content)
    answer(ctx, "show", _json(content, history), _text(content, history))
    return 0


def _json(content: Content, history: tuple[StatusRow, ...]) -> dict[str, Any]:
    pin = content.pin
    return {
        "kind": content.kind if content.kind in ("pin", "snapshot", "build") else "unit",
        "name": content.name,
        "key": content.key,
        "build": content.families[0].build if content.families else None,
        "root": shown(parse_path(content.root)) if content.root else None,
        "snapshot": f"s:{content.snapshot}",
        "status": pin.status if pin else None,
        "settled": pin.settled if pin else None,
        "reason": pin.reason if pin else None,
        "at": pin.at if pin else None,
        "unit": [
            {
                "kind": family.kind,
                "key": family.key,
                "path": shown(family.path),
                "build": family.build,
                "files": family.files,
                "bytes": family.size_bytes,
                "ranks": list(family.ranks),
                "problems": list(family.problems),
            }
            for family in content.families
        ],
        "links": [
            {"aot": link.aot, "compile": link.compile, "source": link.source, "detail": link.detail}
            for link in content.links
        ],
        "statuses": [
            {"at": row.at, "status": row.status, "previous": row.previous, "reason": row.reason,
             "evidence": row.evidence}
            for row in history
        ],
    }  # fmt: skip


def _text(content: Content, history: tuple[StatusRow, ...]) -> Iterator[str]:
    pin = content.pin
    yield f"{content.name}  {content.key}"
    if pin:
        yield f"pinned {pin.at}, {pin.status}, {'settled' if pin.settled else 'unsettled'}"
        if pin.reason:
            yield f"reason {pin.reason}"
    if content.root:
        yield f"root {shown(parse_path(content.root))}"
    yield f"stored in s:{content.snapshot[:16]}"
    headers = ("kind", "key", "ranks", "files", "size", "build", "problems")
    yield table(
        headers,
        [
            (
                family.kind,
                family.key[:16] if family.kind == "aot" else family.key[:40],
                ", ".join(family.ranks) or "-",
                str(family.files),
                size_text(family.size_bytes),
                f"b:{family.build[:16]}",
                ", ".join(family.problems) or "-",
            )
            for family in content.families
        ],
    )
    for link in content.links:
        yield f"link {link.aot[:8]} - {link.compile} ({link.source}: {link.detail})"
    for row in history:
        yield f"{row.at} {row.previous or '-'} -> {row.status}: {row.reason}"
