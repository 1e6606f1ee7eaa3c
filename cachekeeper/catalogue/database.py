"""One connection to an SQLite database, and its two kinds of transaction.

Guarantee: `writing` takes the write lock before it looks (BEGIN IMMEDIATE), so what it reads cannot
be out of date when it writes; a waiting process is woken within `_BUSY_TIMEOUT_S`, else SQLite says
that the database is locked.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import sqlalchemy as sa

_BUSY_TIMEOUT_S = 30.0
_CACHE_KIB = 32 << 10


@dataclass(frozen=True, slots=True)
class View:
    """One store's rows inside one transaction: what a query works on."""

    connection: sa.Connection
    store_id: str


class Database:
    """An open database; for one thread."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.StaticPool)
        self._connection = self._engine.connect()

    def close(self) -> None:
        """Close the connection; the last one to close a file takes its journal away."""
        # a database that cannot even roll back is closed all the same
        with suppress(sa.exc.DBAPIError):
            self._connection.close()
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a block one unchanging state of the database."""
        with self._transaction("BEGIN"):
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Give a block the database to itself; all it does is kept, or none when it raises."""
        with self._transaction("BEGIN IMMEDIATE"):
            yield self._connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        try:
            self._connection.exec_driver_sql(begin)
            yield
            self._connection.commit()
        except BaseException:
            # the first error is the one to tell; closing rolls back for good
            with suppress(sa.exc.DBAPIError):
                self._connection.rollback()
            raise

    def prefer_wal(self) -> None:
        """Let readers go on while one writes, where the file system has shared memory for it.

        Refusal is no error: the file stays with a rollback journal, which is only slower. So is a
        file that another process uses right now; that process asks for the same.
        """
        with suppress(sa.exc.OperationalError):
            self._connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        self._connection.rollback()


def open_file(path: bytes) -> Database:
    """Return the database in a file; nothing is read yet."""
    return Database(lambda: _connect(path))


def open_memory() -> Database:
    """Return an empty database that lives in this process alone."""
    return Database(lambda: _connect(b":memory:"))


def _connect(path: bytes) -> sqlite3.Connection:
    # isolation_level None: sqlite3 begins no transactions of its own, `_transaction` does
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    try:
        # an index needs to be whole after a power cut, not up to date
        connection.execute("PRAGMA synchronous=NORMAL")
        # digests arrive in no order: SQLite's own 2 MB make a first index twice as slow
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
    except sqlite3.Error:  # not a database
        connection.close()
        raise
    return connection
