"""Whole files, written so that a reader or a crash sees the old one, the new one, or none."""

import os
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
    except OSError:
        with suppress(OSError):
            primitives.remove_file(temporary)
        raise
    primitives.sync_directory(os.path.dirname(path))


def ensure_directory(path: bytes, mode: int) -> None:
    """Make a directory and its missing parents; another process may make them at the same time."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent and parent != path:
        ensure_directory(parent, mode)
    with suppress(FileExistsError):
        primitives.make_directory(path, mode)


def remove_tree(path: bytes) -> None:
    """Remove a tree of ours, leaves first, never following a link; what is gone already is fine."""
    with suppress(FileNotFoundError, NotADirectoryError):
        with os.scandir(path) as listing:
            inside = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in listing]
        for name, is_directory in inside:
            if is_directory:
                remove_tree(name)
            else:
                with suppress(FileNotFoundError):
                    primitives.remove_file(name)
        with suppress(FileNotFoundError):
            primitives.remove_directory(path)
