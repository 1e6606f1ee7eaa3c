"""What queries have in common: prefixes that an index answers, and the order of answers."""

from typing import Any

import sqlalchemy as sa

_ABOVE = "\x7f"  # above every character of a digest, key or path text, which are printable ASCII


def starts_with(column: "sa.ColumnElement[str]", prefix: str) -> "sa.ColumnElement[bool]":
    """Return the condition; a range, because LIKE ignores case and knows wildcards."""
    if not prefix.isascii():
        return sa.false()
    return sa.and_(column >= prefix, column < prefix + _ABOVE)


def newest_first(record: sa.FromClause) -> "tuple[sa.ColumnElement[Any], ...]":
    """Return the order of all answers; the digest settles what one number was given to twice."""
    return record.c.sequence.desc(), record.c.digest
