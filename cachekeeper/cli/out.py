"""The one sink: the answer to stdout, talk to stderr; text or one JSON object."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
from tabulate import tabulate

from cachekeeper.cli.options import given
from cachekeeper.core.paths import shown
from cachekeeper.keeper.facts import FoundProblem
from cachekeeper.keeper.keeper import Keeper

_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000


def answer(ctx: click.Context, name: str, data: Mapping[str, Any], text: Iterable[str]) -> None:
    """Print a command's answer: its JSON object, or its lines of text."""
    if given(ctx, "json"):
        whole = {"schema": f"cachekeeper/{name}/1", **data}
        _write(json.dumps(whole, indent=2, ensure_ascii=True))
    else:
        _write("\n".join(text))


def notices(ctx: click.Context, keeper: Keeper) -> None:
    """Say on stderr what the keeper did beside what was asked."""
    if not given(ctx, "quiet"):
        for notice in keeper.notices:
            click.echo(f"note: {notice}", err=True)


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table for people."""
    return tabulate(list(rows), headers=headers, tablefmt="simple", disable_numparse=True)


def size_text(size_bytes: int) -> str:
    """Return a size for people, in powers of 1000."""
    amount = float(size_bytes)
    for unit in _UNITS:
        if amount < _STEP or unit == _UNITS[-1]:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _STEP
    raise AssertionError  # pragma: no cover  the last unit returns


def count(number: int, what: str) -> str:
    """Return a number with its noun, in the plural where it is not one."""
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{number} {what if number == 1 else plural}"


def _write(text: str) -> None:
    """Write what the stream's encoding can hold; other characters are escaped."""
    if text:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()


def problem_json(found: FoundProblem) -> dict[str, Any]:
    """Return a problem as JSON shows it, with its path in the root."""
    return {
        "code": found.problem.code,
        "path": shown(found.path),
        "detail": found.problem.detail,
        "severity": found.problem.severity,
        "root": shown(found.root.given),
    }


def problem_lines(problems: Sequence[FoundProblem]) -> Iterator[str]:
    """Yield a line for each problem; the root is said where they are of several."""
    several = len({found.root for found in problems}) > 1
    for found in problems:
        path = os.path.join(found.root.given, found.path) if several else found.path
        yield f"problem {shown(path)}: {found.problem.detail} ({found.problem.code})"
