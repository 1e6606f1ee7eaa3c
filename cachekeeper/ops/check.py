"""check: re-hash the store, and name the pins and snapshots that damage hits."""

import itertools
from collections import defaultdict
from dataclasses import dataclass

from cachekeeper.core.digests import parse_digest
from cachekeeper.core.errors import DamagedStoreError, FormatError
from cachekeeper.core.paths import shown
from cachekeeper.core.record import Record, RecordKind
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily, families_of, parse_family
from cachekeeper.keeper.live import load_attributes, load_manifest
from cachekeeper.store.store import Store


@dataclass(frozen=True)
class StoreProblem:
    """One thing wrong in the store: a code, what it is about, and whom it hits."""

    code: str
    subject: str
    detail: str
    pins: tuple[str, ...] = ()
    snapshots: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckResult:
    """How many objects and records were hashed, and what is wrong."""

    objects: int
    records: int
    problems: tuple[StoreProblem, ...]


@dataclass
class _Users:
    """Who needs an object: names of pins and snapshots, and one path it is kept for."""

    pins: set[str]
    snapshots: set[str]
    path: str = ""


def check(keeper: Keeper) -> CheckResult:
    """Hash every object and record and follow every reference."""
    store = keeper.store
    with store.in_use(timeout_s=keeper.settings.lock_timeout_s):
        faults: dict[str, str] = {}
        digests = list(store.objects.all_digests())
        for number, digest in enumerate(digests):
            if number % 64 == 0:
                keeper.settings.progress("hashing objects", number, len(digests))
            fault = store.objects.verify(digest)
            if fault:
                faults[digest] = fault
        records, problems = _read_records(keeper)
        users, broken_lists = _users(keeper, records)
        present = set(digests)
        for digest in users:
            if digest not in present:
                faults[digest] = "missing"
    problems += [_object_problem(digest, fault, users) for digest, fault in sorted(faults.items())]
    problems += broken_lists
    return CheckResult(len(digests), len(records), tuple(problems))


def _read_records(keeper: Keeper) -> tuple[list[Record], list[StoreProblem]]:
    """Return every record that can be read, in order, and a problem for each that cannot."""
    store = keeper.store
    records: list[Record] = []
    problems: list[StoreProblem] = []
    sequences: dict[int, str] = {}
    for sequence, kind, digest in sorted(store.records.names()):
        if sequence in sequences:
            detail = f"its number {sequence} is also that of {sequences[sequence][:16]}"
            problems.append(StoreProblem("record-twice", digest[:16], detail))
        sequences[sequence] = digest
        try:
            records.append(_read_record(store, sequence, kind, digest))
        except (DamagedStoreError, FormatError) as error:
            problems.append(StoreProblem("damaged-record", f"{kind} {digest[:16]}", error.fact))
    return records, problems + _gaps(sorted(sequences))


def _read_record(store: Store, sequence: int, kind: RecordKind, digest: str) -> Record:
    record = store.records.read(kind, digest)
    if record.sequence != sequence:
        raise FormatError(f"its number is {record.sequence}, its name says {sequence}")
    return record


def _gaps(sequences: list[int]) -> list[StoreProblem]:
    """Return a problem for each gap: numbers are given one after the other, and records stay."""
    problems = []
    for before, after in itertools.pairwise((0, *sequences)):
        if after - before > 1:
            first, last = before + 1, after - 1
            subject = str(first) if first == last else f"{first} to {last}"
            problems.append(StoreProblem("missing-record", subject, "a mirror may have it"))
    return problems


def _users(keeper: Keeper, records: list[Record]) -> tuple[dict[str, _Users], list[StoreProblem]]:
    """Return who needs which object, for all snapshots and for pins that were not removed."""
    users: dict[str, _Users] = defaultdict(lambda: _Users(set(), set()))
    problems: list[StoreProblem] = []
    removed = {record.body.get("pin") for record in records if record.kind == "unpin"}
    for record in records:
        try:
            if record.kind == "snapshot":
                for family in families_of(record.body):
                    _use(keeper, users, family, snapshot=f"s:{record.digest[:16]}")
            elif record.kind == "pin" and record.digest not in removed:
                for item in record.body["unit"]:
                    _use(keeper, users, parse_family(item), pin=str(record.body["name"]))
            elif record.kind == "status" and record.body["evidence"].get("digest"):
                user = users[parse_digest(str(record.body["evidence"]["digest"]))]
                user.path = user.path or f"evidence of {record.body['ref']}"
        except (FormatError, KeyError, TypeError, AttributeError) as error:
            problems.append(
                StoreProblem("damaged-record", f"{record.kind} {record.digest[:16]}", str(error))
            )
    return users, problems


def _use(
    keeper: Keeper,
    users: dict[str, _Users],
    family: KeptFamily,
    pin: str | None = None,
    snapshot: str | None = None,
) -> None:
    for digest, path in (
        (family.build, "manifest"),
        (family.attributes, "attributes"),
        *_entries(keeper, family),
    ):
        user = users[digest]
        user.path = user.path or f"{shown(family.path)}/{path}"
        if pin:
            user.pins.add(pin)
        if snapshot:
            user.snapshots.add(snapshot)


def _entries(keeper: Keeper, family: KeptFamily) -> tuple[tuple[str, str], ...]:
    """Return (digest, path) of all that a family's lists name; a broken list names nothing."""
    entries: list[tuple[str, str]] = []
    try:
        entries += [
            (entry.digest, shown(entry.path))
            for entry in load_manifest(keeper.store, family.build).entries
        ]
        entries += [
            (entry.digest, shown(entry.path))
            for entry in load_attributes(keeper.store, family.attributes).entries
            if entry.digest
        ]
    except DamagedStoreError:  # the list itself is reported as an object
        return tuple(entries)
    return tuple(entries)


def _object_problem(digest: str, fault: str, users: dict[str, _Users]) -> StoreProblem:
    user = users.get(digest)
    if user is None:
        return StoreProblem(f"{fault}-object", digest, "no pin or snapshot needs it")
    return StoreProblem(
        f"{fault}-object",
        digest,
        user.path,
        tuple(sorted(user.pins)),
        tuple(sorted(user.snapshots)),
    )
