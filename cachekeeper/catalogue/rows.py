"""What the catalogue answers with. Paths and roots are text (`%XX`), as the records have them."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One snapshot record: how many bytes and families it holds, over all its roots."""

    digest: str
    sequence: int
    at: str
    reason: str
    message: str
    bytes: int
    families: int


@dataclass(frozen=True, slots=True)
class BuildRow:
    """A build at one place, with the snapshot record (`snapshot`, `sequence`, `at`) that saw it."""

    build: str
    attributes: str
    root: str
    kind: str
    key: str
    path: str
    files: int
    bytes: int
    snapshot: str
    sequence: int
    at: str


class PinnedFamily(NamedTuple):
    """One family of a pinned unit."""

    kind: str
    key: str
    path: str
    build: str
    attributes: str


@dataclass(frozen=True, slots=True)
class PinRow:
    """A pin record; `status` is the current one, `reason` is the one given when it was pinned."""

    digest: str
    sequence: int
    at: str
    name: str
    key: str
    root: str
    status: str
    reason: str
    settled: bool
    snapshot: str
    removed: bool
    families: tuple[PinnedFamily, ...]


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One change of status; `ref` is what was typed, `evidence` is text or JSON text."""

    digest: str
    sequence: int
    at: str
    ref: str
    target_kind: str
    target: str
    status: str
    previous: str | None
    reason: str
    evidence: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """One record of any kind as a line of history.

    `subject` names what it is about, `detail` says what happened to it (a message, a new status),
    `root` is the first root of a snapshot, the root of a pin or restore, else None.
    """

    sequence: int
    at: str
    kind: str
    digest: str
    subject: str
    detail: str
    root: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class LinkRow:
    """Which compile family belongs to an aot family, as one snapshot knew it."""

    root: str
    aot: str
    compile: str
    source: str
    detail: str
    snapshot: str
    sequence: int
    at: str


class ReferencedBuild(NamedTuple):
    """The two objects that a family of a snapshot refers to, and who refers to them."""

    build: str
    attributes: str
    snapshot: str
    root: str
    path: str


class DamagedRecord(NamedTuple):
    """A record that is there but cannot be read, so no answer knows of it."""

    kind: str
    digest: str
    fact: str


@dataclass(frozen=True, slots=True)
class RebuildCounts:
    """What a catalogue made anew holds; `pins` are those not removed."""

    records: int
    snapshots: int
    pins: int
    runs: int
