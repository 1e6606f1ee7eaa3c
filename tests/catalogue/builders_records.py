"""Small builders of records and a source that holds them in memory."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cachekeeper.core.digests import digest_of
from cachekeeper.core.record import Record, RecordKind, parse_record, record_bytes

STORE = "5" * 32
ROOT = "/root/.cache/vllm"
AOT_PATH = "torch_compile_cache/torch_aot_compile"


class Builder:
    """Bodies as the store writes them; `add` says where the record goes."""

    def add(self, kind: RecordKind, body: Mapping[str, Any], sequence: int | None = None) -> Record:
        raise NotImplementedError

    def snapshot(
        self,
        *roots: Mapping[str, Any],
        reason: str = "snapshot",
        message: str = "",
        sequence: int | None = None,
    ) -> Record:
        body = {"reason": reason, "message": message, "roots": list(roots)}
        return self.add("snapshot", body, sequence)

    def pin(self, name: str, snapshot: Record, *unit: Mapping[str, Any], **changes: Any) -> Record:
        body = {
            "name": name,
            "status": "floor",
            "reason": "fast",
            "key": unit[0]["key"] if unit else "",
            "root": ROOT,
            "unit": list(unit),
            "links": [],
            "ranks": {"expected": ["rank_0_0"], "source": "log"},
            "settled": True,
            "snapshot": snapshot.digest,
        }
        return self.add("pin", {**body, **changes})

    def unpin(self, pin: Record) -> Record:
        return self.add("unpin", {"name": pin.body["name"], "pin": pin.digest})

    def mark(self, kind: str, target: str, status: str, **changes: Any) -> Record:
        body = {"ref": "c158", "target_kind": kind, "target": target, "status": status}
        more = {"previous": None, "reason": "measured", "evidence": None}
        return self.add("status", {**body, **more, **changes})


@dataclass
class MemorySource(Builder):
    """A RecordSource in memory; `broken` says which digests cannot be read and how."""

    store: str = STORE
    records: dict[str, Record] = field(default_factory=dict)
    broken: dict[str, Exception] = field(default_factory=dict)
    reads: list[str] = field(default_factory=list)

    def names(self) -> Iterator[tuple[int, RecordKind, str]]:
        for digest, record in list(self.records.items()):
            yield record.sequence, record.kind, digest

    def read(self, kind: RecordKind, digest: str) -> Record:
        self.reads.append(digest)
        if digest in self.broken:
            raise self.broken[digest]
        record = self.records[digest]
        assert record.kind == kind
        return record

    def add(self, kind: RecordKind, body: Mapping[str, Any], sequence: int | None = None) -> Record:
        number = sequence or 1 + max((r.sequence for r in self.records.values()), default=0)
        record = parse_record(_bytes(kind, number, self.store, body))
        self.records[record.digest] = record
        return record


@dataclass
class FolderSource(Builder):
    """A RecordSource that processes can share: one file a record, snapshots alone."""

    folder: str

    def names(self) -> Iterator[tuple[int, RecordKind, str]]:
        for name in os.listdir(self.folder):
            sequence, _, digest = name.partition("-")
            if digest:
                yield int(sequence), "snapshot", digest

    def read(self, _kind: RecordKind, digest: str) -> Record:
        path = next(name for name in os.listdir(self.folder) if name.endswith(digest))
        with open(os.path.join(self.folder, path), "rb") as file:
            return parse_record(file.read())

    def add(self, kind: RecordKind, body: Mapping[str, Any], sequence: int | None = None) -> Record:
        data = _bytes(kind, sequence, STORE, body)
        record = parse_record(data)
        temporary = os.path.join(self.folder, f"{sequence}.new")
        with open(temporary, "wb") as file:
            file.write(data)
        os.rename(temporary, os.path.join(self.folder, f"{sequence}-{record.digest}"))
        return record


def _bytes(kind: RecordKind, sequence: int, store: str, body: Mapping[str, Any]) -> bytes:
    at = f"2026-11-30T11:22:33.{sequence:06d}Z"
    return record_bytes(kind, sequence, at, store, body)


def key_of(label: object) -> str:
    """Return a graph hash: 64 hex digits that depend on the label alone."""
    return digest_of(f"key {label}".encode())


def family(label: object, content: object = 0, **changes: Any) -> dict[str, Any]:
    """Return an aot family as a record's body holds it; `content` makes its build."""
    key = key_of(label)
    whole = {
        "kind": "aot",
        "key": key,
        "path": f"{AOT_PATH}/{key}",
        "build": digest_of(f"build {label} {content}".encode()),
        "attributes": digest_of(f"attributes {label} {content}".encode()),
        "files": 2,
        "bytes": 1000,
        "ranks": ["rank_0_0"],
        "recognised": True,
        "problems": [],
        "left_out": {"lock": 0, "temporary": 0},
    }
    return {**whole, **changes}


def root(
    families: Iterable[Mapping[str, Any]] = (),
    links: Iterable[Mapping[str, Any]] = (),
    path: str = ROOT,
) -> dict[str, Any]:
    """Return one root of a snapshot's body."""
    return {
        "path": path,
        "given": path,
        "families": list(families),
        "links": list(links),
        "problems": [],
    }


def link(aot: object, compile_key: str, source: str = "log", detail: str = "") -> dict[str, Any]:
    """Return a link as a record's body holds it."""
    return {"aot": key_of(aot), "compile": compile_key, "source": source, "detail": detail}
