"""The one way into the catalogue: questions about the records of a store.

Every question first indexes the records that came since. All answers are newest first. An instance
is for one thread; any number of processes may ask at the same time.
"""

# ruff: noqa: PLC0415  SQLAlchemy costs 0.3 s, so each question imports its own query

import os
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from cachekeeper.catalogue.rows import (
    BuildRow,
    DamagedRecord,
    EventRow,
    LinkRow,
    PinRow,
    RebuildCounts,
    ReferencedBuild,
    SnapshotRow,
    StatusRow,
)
from cachekeeper.catalogue.source import RecordSource

if TYPE_CHECKING:  # imported for real at the first question
    from cachekeeper.catalogue.index import Index

__all__ = ["Catalogue", "RecordSource"]


class Catalogue:
    """The index of one store's records in the SQLite file at `path`, made where it is missing.

    Questions raise BusyError where another process holds the file for long. Where it cannot be
    written they are answered from memory, and a file that is broken or of an unknown revision is
    moved aside to `<path>.broken-<n>`.
    """

    def __init__(self, path: bytes | str, store_id: str, source: RecordSource) -> None:
        self._path = os.path.abspath(os.fsencode(path))
        self._store_id = store_id
        self._source = source
        self._opened: Index | None = None

    def __enter__(self) -> "Catalogue":  # noqa: PYI034  typing has Self from 3.11 on
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a later question opens it again."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _index(self) -> "Index":
        from cachekeeper.catalogue.index import Index

        if self._opened is None:
            self._opened = Index(self._path, self._store_id, self._source)
        return self._opened

    def snapshots(self) -> tuple[SnapshotRow, ...]:
        """Return all snapshots."""
        return self.snapshot_by_prefix("")

    def snapshot_by_prefix(self, prefix: str) -> tuple[SnapshotRow, ...]:
        """Return the snapshots whose record digest starts with `prefix`."""
        from cachekeeper.catalogue.queries.snapshots import snapshots

        return self._index().ask(lambda view: snapshots(view, prefix))

    def builds_by_prefix(self, prefix: str) -> tuple[BuildRow, ...]:
        """Return each build id that starts with `prefix` once, at the newest place seen."""
        from cachekeeper.catalogue.queries.builds import builds_by_prefix

        return self._index().ask(lambda view: builds_by_prefix(view, prefix))

    def builds_of_key(self, prefix: str, root: str | None) -> tuple[BuildRow, ...]:
        """Return each family whose key starts with `prefix`, once for each snapshot of it."""
        from cachekeeper.catalogue.queries.builds import builds_of_key

        return self._index().ask(lambda view: builds_of_key(view, prefix, root))

    def referenced_builds(self) -> tuple[ReferencedBuild, ...]:
        """Return the objects that each family of each snapshot refers to."""
        from cachekeeper.catalogue.queries.builds import referenced_builds

        return self._index().ask(referenced_builds)

    def links_of(self, root: str, aot_key: str) -> tuple[LinkRow, ...]:
        """Return the links of an aot family that snapshots recorded."""
        from cachekeeper.catalogue.queries.snapshots import links_of

        return self._index().ask(lambda view: links_of(view, root, aot_key))

    def pins(self, *, include_removed: bool = False) -> tuple[PinRow, ...]:
        """Return the pins with their current status."""
        from cachekeeper.catalogue.queries.pins import pins

        return self._index().ask(lambda view: pins(view, include_removed=include_removed))

    def pin_named(self, name: str) -> PinRow | None:
        """Return the pin of a name; one that was removed has no name any more."""
        from cachekeeper.catalogue.queries.pins import pin_named

        return self._index().ask(lambda view: pin_named(view, name))

    def statuses_of(self, target_kind: str, target: str) -> tuple[StatusRow, ...]:
        """Return the changes of status of a pin, build or snapshot."""
        from cachekeeper.catalogue.queries.history import statuses_of

        return self._index().ask(lambda view: statuses_of(view, target_kind, target))

    def events(self, limit: int | None = None) -> tuple[EventRow, ...]:
        """Return every record as a line of history, at most `limit` of them."""
        from cachekeeper.catalogue.queries.history import events

        return self._index().ask(lambda view: events(view, limit))

    def damaged(self) -> tuple[DamagedRecord, ...]:
        """Return the records that are there but cannot be read: no other answer knows of them."""
        from cachekeeper.catalogue.queries.history import damaged

        return self._index().ask(damaged)

    def remembered(self, root: str, family: str) -> bytes | None:
        """Return what `remember` was given last for a family, if it is still known."""
        from cachekeeper.catalogue.queries.remembered import remembered

        return self._index().look(lambda view: remembered(view, root, family))

    def remember(self, root: str, items: Mapping[str, bytes]) -> None:
        """Keep the caller's bytes for some families of a root, until the catalogue is lost."""
        from cachekeeper.catalogue.queries.remembered import remember

        if items:
            self._index().change(lambda view: remember(view, root, items))

    def rebuild(self) -> RebuildCounts:
        """Drop everything, remembered digests too, and index all records anew."""
        from cachekeeper.catalogue.queries.history import rebuild_counts

        self._index().rebuild()
        return self._index().ask(rebuild_counts)
