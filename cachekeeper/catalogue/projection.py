"""What the index keeps of each kind of record: a pure function from a record to rows.

Rows are plain columns without record ids; `catch_up` gives those when it writes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cachekeeper.catalogue.fields import (
    Body,
    checked_count,
    count,
    free_text,
    items,
    required_text,
    storable,
)
from cachekeeper.core.record import Record

Columns = Mapping[str, Any]
_SHOWN_DIGITS = 12  # of a digest, where a line of history names a snapshot


class HeldFamily(NamedTuple):
    """A family with its content, as one row of `family`; a tuple because there are many."""

    build: str
    attributes: str
    root: str
    kind: str
    key: str
    path: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Projection:
    """A record's line of history, its rows as (table, columns), and the families it holds."""

    event: Columns
    facts: tuple[tuple[str, Columns], ...] = ()
    families: tuple[HeldFamily, ...] = ()


def project(record: Record) -> Projection:
    """Return the rows of a record; raises FormatError where the body lacks what they need."""
    return _PROJECTORS.get(record.kind, _other)(record)


def _snapshot(record: Record) -> Projection:
    roots = items(record.body, "roots")
    paths = [required_text(root, "path") for root in roots]
    families = tuple(
        row
        for path, root in zip(paths, roots, strict=True)
        for row in _families(path, items(root, "families"))
    )
    size_bytes = checked_count(sum(family.bytes for family in families), "bytes")
    message = free_text(record.body, "message")
    row = {"message": message, "bytes": size_bytes, "families": len(families)}
    links = [
        _link(path, link)
        for path, root in zip(paths, roots, strict=True)
        for link in items(root, "links")
    ]
    facts = (("link", {"position": position, **link}) for position, link in enumerate(links))
    event = _event(
        record,
        subject=f"s:{record.digest[:_SHOWN_DIGITS]}",
        detail=message,
        root=next(iter(paths), None),
    )
    return Projection(event, (("snapshot", row), *facts), families)


def _pin(record: Record) -> Projection:
    body = record.body
    row: dict[str, Any] = {
        "name": required_text(body, "name"),
        "key": required_text(body, "key"),
        "root": required_text(body, "root"),
        "status": required_text(body, "status"),
        "settled": body.get("settled") is True,
        "snapshot": required_text(body, "snapshot"),
    }
    event = _event(record, subject=row["name"], detail=row["status"], root=row["root"])
    families = tuple(_families(row["root"], items(body, "unit")))
    return Projection(event, (("pin", row),), families)


def _unpin(record: Record) -> Projection:
    row = {"pin": required_text(record.body, "pin")}
    event = _event(record, subject=free_text(record.body, "name"))
    return Projection(event, (("unpin", row),))


def _status(record: Record) -> Projection:
    body = record.body
    previous = body.get("previous")
    row: dict[str, Any] = {
        "ref": free_text(body, "ref"),
        "target_kind": required_text(body, "target_kind"),
        "target": required_text(body, "target"),
        "status": required_text(body, "status"),
        "previous": None if previous is None else required_text(body, "previous"),
        "evidence": free_text(body, "evidence"),
    }
    event = _event(record, subject=row["ref"], detail=row["status"])
    return Projection(event, (("status", row),))


def _restore(record: Record) -> Projection:
    refs = record.body.get("refs")
    subject = ", ".join(map(str, refs)) if isinstance(refs, list) else ""
    detail = free_text(record.body, "restore")
    return Projection(
        _event(record, storable(subject), detail, free_text(record.body, "root") or None)
    )


def _other(record: Record) -> Projection:
    """Keep a kind that needs no table of its own as a line of history."""
    return Projection(_event(record, subject=free_text(record.body, "label")))


def _event(record: Record, subject: str, detail: str = "", root: str | None = None) -> Columns:
    return {
        "digest": record.digest,
        "sequence": checked_count(record.sequence, "sequence"),
        "at": record.at,
        "kind": record.kind,
        "subject": subject,
        "detail": detail,
        "root": root,
        "reason": free_text(record.body, "reason"),
    }


def _families(root: str, families: Iterable[Body]) -> Iterable[HeldFamily]:
    for family in families:
        yield HeldFamily(
            build=required_text(family, "build"),
            attributes=required_text(family, "attributes"),
            root=root,
            kind=required_text(family, "kind"),
            key=required_text(family, "key"),
            path=required_text(family, "path"),
            files=count(family, "files"),
            bytes=count(family, "bytes"),
        )


def _link(root: str, link: Body) -> Columns:
    ends = {name: required_text(link, name) for name in ("aot", "compile", "source")}
    return {"root": root, **ends, "detail": free_text(link, "detail")}


_PROJECTORS: Mapping[str, Callable[[Record], Projection]] = {
    "snapshot": _snapshot,
    "pin": _pin,
    "unpin": _unpin,
    "status": _status,
    "restore": _restore,
}
