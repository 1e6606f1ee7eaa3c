"""A record: one immutable fact, as a value and as canonical bytes.

Format: docs/design/store-format.md. The digest is of the whole file, so `b3sum` checks it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import FormatError, NewerFormatError

RECORD_FORMAT = 1
RecordKind = Literal["snapshot", "pin", "unpin", "status", "restore"]
RECORD_KINDS: tuple[RecordKind, ...] = ("snapshot", "pin", "unpin", "status", "restore")


@dataclass(frozen=True)
class Record:
    """`at` is UTC ISO 8601; `body` is plain JSON; `digest` is of the canonical bytes."""

    kind: RecordKind
    sequence: int
    at: str
    store: str
    body: Mapping[str, Any]
    digest: str


def record_bytes(
    kind: RecordKind, sequence: int, at: str, store: str, body: Mapping[str, Any]
) -> bytes:
    """Return the canonical bytes of a record."""
    whole = {
        "format": RECORD_FORMAT, "kind": kind, "sequence": sequence,
        "at": at, "store": store, "body": body,
    }  # fmt: skip
    return (json.dumps(whole, sort_keys=True, separators=(",", ":")) + "\n").encode("ascii")


def parse_record(data: bytes) -> Record:
    """Return the record written in `data`; raises FormatError, NewerFormatError."""
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError("the record is not JSON") from error
    if not isinstance(whole, dict) or not _is_number(whole.get("format")) or not whole["format"]:
        raise FormatError("the record has no format number")
    if whole["format"] > RECORD_FORMAT:
        raise NewerFormatError(
            f"the record has format {whole['format']}, this cachekeeper knows {RECORD_FORMAT}",
            "upgrade cachekeeper",
        )
    kind = next((known for known in RECORD_KINDS if known == whole.get("kind")), None)
    fields_fit = (
        _is_number(whole.get("sequence"))
        and isinstance(whole.get("at"), str)
        and isinstance(whole.get("store"), str)
        and isinstance(whole.get("body"), dict)
    )
    if kind is None or not fields_fit:
        raise FormatError("the record lacks a field")
    return Record(
        kind, whole["sequence"], whole["at"], whole["store"], whole["body"], digest_of(data)
    )


def _is_number(value: object) -> bool:
    """Tell whether a JSON value is a natural number (for Python `true` is one, for us not)."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
