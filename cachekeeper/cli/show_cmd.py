"""cachekeeper show."""

import json
from collections.abc import Iterator
from typing import Any

import click

from cachekeeper.cli.options import common_options, open_keeper
from cachekeeper.cli.out import answer, size_text, table
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.ops.show import Shown, show

_KINDS = ("pin", "snapshot", "build", "live")


@click.command("show")
@click.argument("reference", metavar="REF")
@common_options
@click.pass_context
def command(ctx: click.Context, reference: str) -> int:
    """Show all that is known of a pin, hash, build (b:...) or snapshot (s:...).

    live:HASH shows what stands in the root now.
    """
    with open_keeper(ctx, needs_roots=False) as keeper:
        result = show(keeper, reference)
    answer(ctx, "show", _json(result), _text(result))
    return 0


def _json(result: Shown) -> dict[str, Any]:
    content, stored = result.content, result.snapshot
    pin = content.pin
    return {
        "kind": content.kind if content.kind in _KINDS else "unit",
        "name": content.name,
        "key": content.key,
        "build": content.build,
        "root": shown(parse_path(content.root)) if content.root else None,
        "snapshot": f"s:{stored.digest}" if stored else None,
        "message": stored.message if stored else None,
        "stored_at": stored.at if stored else None,
        "stored_by": stored.reason if stored else None,
        "status": pin.status if pin else None,
        "settled": pin.settled if pin else None,
        "reason": (pin.reason or None) if pin else None,
        "at": pin.at if pin else None,
        "unit": [
            {
                "root": shown(parse_path(root)),
                "kind": family.kind,
                "key": family.key,
                "path": shown(family.path),
                "build": family.build,
                "files": family.files,
                "bytes": family.size_bytes,
                "ranks": list(family.ranks),
                "problems": list(family.problems),
            }
            for root, family in zip(result.roots, content.families, strict=True)
        ],
        "links": [
            {"aot": link.aot, "compile": link.compile, "source": link.source, "detail": link.detail}
            for link in content.links
        ],
        "statuses": [
            {"at": row.at, "status": row.status, "previous": row.previous, "reason": row.reason,
             "evidence": json.loads(row.evidence) if row.evidence[:1] == "{" else row.evidence}
            for row in result.statuses
        ],
    }  # fmt: skip


def _text(result: Shown) -> Iterator[str]:
    content, stored = result.content, result.snapshot
    pin = content.pin
    yield f"{content.name}  {content.key}".rstrip()
    if pin:
        yield f"pinned {pin.at}, {pin.status}, {'settled' if pin.settled else 'unsettled'}"
        if pin.reason:
            yield f"reason {pin.reason}"
    for root in dict.fromkeys(result.roots):
        yield f"root {shown(parse_path(root))}"
    if stored:
        by = f": {stored.message}" if stored.message else f" by {stored.reason}"
        yield f"stored in s:{stored.digest[:16]}, {stored.at[:19]}Z{by}"
    several = len(set(result.roots)) > 1
    headers = ("kind", "key", "ranks", "files", "size", "build", "problems")
    yield table(
        (*headers, "root") if several else headers,
        [
            (
                family.kind,
                shown(family.path) if family.kind == "other" else family.key[:16],
                ", ".join(family.ranks) or "-",
                str(family.files),
                size_text(family.size_bytes),
                f"b:{family.build[:16]}",
                ", ".join(family.problems) or "-",
                *((shown(parse_path(root)),) if several else ()),
            )
            for root, family in zip(result.roots, content.families, strict=True)
        ],
    )
    for link in content.links:
        yield f"link {link.aot[:8]} - {link.compile} ({link.source}: {link.detail})"
    for row in result.statuses:
        yield f"{row.at} {row.previous or '-'} -> {row.status}: {row.reason}"
