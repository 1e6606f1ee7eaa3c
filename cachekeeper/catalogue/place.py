"""The catalogue's file on disk: making it private, and moving it out of the way."""

import itertools
import os
from contextlib import suppress

from cachekeeper.fs import primitives
from cachekeeper.fs.locks import directory_lock

_COMPANIONS = (b"-wal", b"-shm", b"-journal")  # SQLite's own files beside a database
_LOCK_TIMEOUT_S = 30.0


def make_writable(path: bytes) -> bool:
    """Make the file, empty and mode 0600, where there is none; tell whether it can be written.

    A file that is there is never opened here: closing it again would drop the locks that SQLite
    holds on it elsewhere in this process.
    """
    try:
        os.close(primitives.create_file(path))
    except FileExistsError:
        return os.access(path, os.W_OK)
    except OSError:
        return False
    return True


def identity(path: bytes) -> tuple[int, int] | None:
    """Return which file stands at a path."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def move_aside(path: bytes, broken: tuple[int, int] | None) -> None:
    """Rename a broken catalogue to the first free `<name>.broken-<n>`; raises OSError, BusyError.

    Only the file that was found broken: under the lock, another process may have put a new one
    there already. Its journals go first: SQLite would play one that stayed into the next catalogue.
    """
    with directory_lock(os.path.dirname(path), exclusive=True, timeout_s=_LOCK_TIMEOUT_S):
        if identity(path) != broken:
            return
        names = (b"%s.broken-%d" % (path, number) for number in itertools.count(1))
        aside = next(name for name in names if not os.path.lexists(name))
        for companion in _COMPANIONS:
            with suppress(FileNotFoundError):
                primitives.rename(path + companion, aside + companion)
        primitives.rename_new(path, aside)
