"""Whole files, written so that a reader or a crash sees the old one, the new one, or none."""

import os
import stat
from contextlib import suppress

from cachekeeper.fs import primitives


def write_new_file(path: bytes, temporary: bytes, data: bytes) -> None:
    """Write `data` to `temporary`, bring it to the disk, give it its name, sync the directory.

    `temporary` must lie in the same file system; it is removed when something fails.
    """
    descriptor = primitives.create_file(temporary)
    try:
        try:
            primitives.write_all(descriptor, data, temporary)
            primitives.sync_file(descriptor, temporary)
        finally:
            os.close(descriptor)
        primitives.rename(temporary, path)
    except BaseException:
        with suppress(OSError):
            primitives.remove_file(temporary)
        raise
    primitives.sync_directory(os.path.dirname(path))


def ensure_directory(path: bytes, mode: int) -> None:
    """Make a directory and its missing parents; another process may make them at the same time.

    Raises FileExistsError where something else stands in its place.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        ensure_directory(parent, mode)
    try:
        primitives.make_directory(path, mode)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def remove_tree(path: bytes) -> None:
    """Remove a tree of ours, never following a link; what is gone already is fine.

    A directory's files go before the directories in it: an intent goes first, so that a removal
    that is stopped leaves only litter. Directories without permissions are given them.
    """
    emptied: list[bytes] = []
    waiting = [path]
    while waiting:
        directory = waiting.pop()
        if _is_open_directory(directory):
            emptied.append(directory)
            waiting += _remove_files(directory)
    for directory in reversed(emptied):
        with suppress(FileNotFoundError):
            primitives.remove_directory(directory)


def _is_open_directory(path: bytes) -> bool:
    """Let the owner list and empty a directory; False where there is none, or a link to one."""
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISDIR(mode):
        return False
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=True):
        primitives.set_directory_mode(path, stat.S_IMODE(mode) | 0o700)
    return True


def _remove_files(directory: bytes) -> list[bytes]:
    """Remove what is no directory in a directory; return the directories."""
    with os.scandir(directory) as listing:
        inside = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, is_directory in inside:
        if not is_directory:
            with suppress(FileNotFoundError):
                primitives.remove_file(name)
    return [name for name, is_directory in inside if is_directory]
