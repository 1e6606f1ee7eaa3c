"""Taking fields out of a record's body: what SQLite cannot hold is refused or respelt here.

A record's digest proves its bytes, not its shape: another version or a bug may have written it, and
one odd record must not stop the questions about all others.
"""

import json
from collections.abc import Mapping
from typing import Any

from cachekeeper.core.errors import FormatError

Body = Mapping[str, Any]
_LARGEST = 2**63 - 1  # SQLite integers are signed 64 bit


def storable(text: str) -> str:
    """Return text that is UTF-8: a file name of other bytes reaches JSON as lone surrogates."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def required_text(body: Body, name: str) -> str:
    """Return a text that must be there; raises FormatError."""
    value = body.get(name)
    if not isinstance(value, str):
        raise FormatError(f"the record has no text {name!r}")
    return storable(value)


def free_text(body: Body, name: str) -> str:
    """Return what people wrote: text as it is, nothing as the empty text, other values as JSON."""
    value = body.get(name)
    if value is None:
        return ""
    return storable(value if isinstance(value, str) else json.dumps(value, sort_keys=True))


def count(body: Body, name: str) -> int:
    """Return a number of files or bytes that must be there; raises FormatError."""
    return checked_count(body.get(name), name)


def checked_count(value: object, name: str) -> int:
    """Return a whole number that SQLite can hold; raises FormatError."""
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise FormatError(f"the record has no count {name!r}")
    return value


def items(body: Body, name: str) -> tuple[Body, ...]:
    """Return a list of objects, empty where it is missing; raises FormatError."""
    value = body.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise FormatError(f"the record has no list of objects {name!r}")
    return tuple(value)
