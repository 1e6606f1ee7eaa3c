"""What an error of SQLite means for an index that can be made anew.

`sqlite_errorcode` would say it exactly but Python 3.10 has none; classes and SQLite's fixed
messages are the same in every version.
"""

import enum
import sqlite3

import sqlalchemy as sa


class StrangeCatalogueError(Exception):
    """The file is a database, but not a catalogue this code can read; never leaves the package."""


class Fault(enum.Enum):
    """What is to be done."""

    BROKEN = "move it aside and make it anew"
    LOCKED = "give up: another process holds it"
    UNWRITABLE = "index in memory instead"


_SCHEMA_LIES = ("no such table", "no such column", "could not decode")


def fault_of(error: sa.exc.DBAPIError | StrangeCatalogueError) -> Fault | None:
    """Return what an error means, None where it is a bug of ours."""
    if isinstance(error, StrangeCatalogueError):
        return Fault.BROKEN
    cause = error.orig
    if type(cause) is sqlite3.DatabaseError:  # "not a database", "malformed"
        return Fault.BROKEN
    if not isinstance(cause, sqlite3.OperationalError):
        return None
    message = str(cause).lower()
    if any(lie in message for lie in _SCHEMA_LIES):
        return Fault.BROKEN
    # read-only, cannot open, disk full, I/O error: all can be answered without the file
    return Fault.LOCKED if "locked" in message else Fault.UNWRITABLE
