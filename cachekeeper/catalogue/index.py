"""The open catalogue: opened at the first question, made anew where the file is of no use.

A broken file is moved aside; where the file cannot be written the index lives in memory. Either way
the question is answered from the records, which is all that an index is for.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import sqlalchemy as sa

from cachekeeper.catalogue import place, schema, writing
from cachekeeper.catalogue.catch_up import catch_up, close_gap
from cachekeeper.catalogue.database import Database, View, open_file, open_memory
from cachekeeper.catalogue.faults import Fault, StrangeCatalogueError, fault_of
from cachekeeper.catalogue.source import RecordSource
from cachekeeper.core.errors import BusyError
from cachekeeper.core.paths import shown

_Answer = TypeVar("_Answer")
_Question = Callable[[View], _Answer]


class Index:
    """One store's rows in a file, or in memory; for one thread."""

    def __init__(self, path: bytes, store_id: str, source: RecordSource) -> None:
        self._path = path
        self._store_id = store_id
        self._source = source
        self._database: Database | None = None
        self._file: tuple[int, int] | None = None
        self._use_memory = False
        self._was_broken = False

    def close(self) -> None:
        """Close the database; an index in memory is gone with it."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def ask(self, question: _Question[_Answer]) -> _Answer:
        """Answer from all records that are there now; raises BusyError."""

        def work(database: Database) -> _Answer:
            catch_up(database, self._store_id, self._source)
            return self._read(database, question)

        return self._persist(work)

    def look(self, question: _Question[_Answer]) -> _Answer:
        """Answer from the rows as they are, for what no record holds; raises BusyError."""
        return self._persist(lambda database: self._read(database, question))

    def change(self, change: _Question[_Answer]) -> _Answer:
        """Change rows that no record holds, all or none; raises BusyError."""

        def work(database: Database) -> _Answer:
            with database.writing() as connection:
                return change(View(connection, self._store_id))

        return self._persist(work)

    def rebuild(self) -> None:
        """Drop all rows and index anew, in one step for everybody else; raises BusyError."""

        def renew(view: View) -> None:
            writing.drop_everything(view)
            close_gap(view, self._source)

        self.change(renew)

    def _read(self, database: Database, question: _Question[_Answer]) -> _Answer:
        with database.reading() as connection:
            return question(View(connection, self._store_id))

    def _persist(self, work: Callable[[Database], _Answer]) -> _Answer:
        """Work on the file; where it is of no use, on a new file; else in memory."""
        try:
            return work(self._open())
        except (sa.exc.DBAPIError, StrangeCatalogueError) as error:
            self._give_way(error)
        return self._persist(work)  # not for ever: `_give_way` has at most two ways to give

    def _open(self) -> Database:
        if self._database is None:
            self._use_memory = self._use_memory or not place.make_writable(self._path)
            if self._use_memory:
                self._database = _prepared(open_memory(), schema.prepare_memory)
            else:
                self._file = place.identity(self._path)
                self._database = _prepared(open_file(self._path), schema.prepare_file)
        return self._database

    def _give_way(self, error: sa.exc.DBAPIError | StrangeCatalogueError) -> None:
        """Choose where to work next; raises what no other place can cure."""
        fault = fault_of(error)
        if fault is None or self._use_memory:
            raise error
        self.close()
        if fault is Fault.LOCKED:
            raise BusyError(
                f"the catalogue {shown(self._path)} is held by another process", "try again later"
            ) from error
        self._use_memory = fault is Fault.UNWRITABLE or self._was_broken
        if not self._use_memory:
            self._was_broken = True
            with suppress(OSError):  # then it is found broken once more, and memory must do
                place.move_aside(self._path, self._file)


def _prepared(database: Database, prepare: Callable[[Database], None]) -> Database:
    try:
        prepare(database)
    except BaseException:
        database.close()
        raise
    return database
