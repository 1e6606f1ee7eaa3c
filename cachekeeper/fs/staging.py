"""Building a family's tree beside its place, every byte verified, before anything is exchanged.

Files come from stored objects by reflink or copy (never a hard link: vLLM writes some files in
place, which would eat the stored copy). An unchanged live file may be hard-linked after hashing:
its old name goes away with the exchange.
"""

import errno
import os
import stat
from dataclasses import dataclass

from cachekeeper.core.attributes import Attribute
from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import DamagedStoreError
from cachekeeper.core.paths import path_below, shown
from cachekeeper.fs import primitives
from cachekeeper.fs.reading import FileState, hash_file, open_file, read_small

# Where linking is refused (protected hard links, no links on this file system, too many) or the
# live file went away, a copy does as well; a full disk or a broken one does not.
_LINK_TEXT_BYTES = 4096  # PATH_MAX
_LINK_REFUSED = frozenset(
    {errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOENT}
)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One file or link to build: where its bytes lie, what they must be, how it must stand.

    `live` is a file that is believed to be equal already. It is linked only after hashing, which
    `live_state` (its state when this very process hashed it) may spare.
    """

    attribute: Attribute
    digest: str
    stored: bytes
    live: bytes | None = None
    live_state: FileState | None = None


@dataclass(frozen=True, slots=True)
class StagedState:
    """What a staged file looked like when its digest was verified."""

    path: bytes
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, path: bytes, status: os.stat_result) -> "StagedState":
        """Return the state in a stat result; renaming the top itself changes its ctime."""
        ctime_ns = status.st_ctime_ns if path else 0
        return cls(path, status.st_ino, status.st_size, status.st_mtime_ns, ctime_ns)


def stage_tree(
    top: bytes, directories: tuple[Attribute, ...], files: tuple[StagedFile, ...]
) -> tuple[StagedState, ...]:
    """Build the tree at `top`, which must not exist; raises DamagedStoreError, OSError.

    A family that is one single file or link is built at `top` itself. Directory attributes are set
    last and deepest first, because filling a directory changes its mtime.
    """
    ordered = sorted(directories, key=lambda directory: directory.path)
    for directory in ordered:
        primitives.make_directory(path_below(top, directory.path), 0o700)
    states = tuple(_stage_file(top, file) for file in files)
    for directory in reversed(ordered):
        set_directory(top, directory)
    return states


def set_directory(top: bytes, directory: Attribute) -> None:
    """Give one directory its recorded owner, mode and mtime."""
    owner = (directory.uid, directory.gid)
    primitives.set_attributes(
        path_below(top, directory.path), directory.mode, owner, directory.mtime_ns
    )


def confirm_tree(top: bytes, states: tuple[StagedState, ...]) -> bytes | None:
    """Return the first path that is no longer the file that was verified, or None."""
    for state in states:
        try:
            now = os.lstat(path_below(top, state.path))
        except OSError:
            return state.path
        if StagedState.of(state.path, now) != state:
            return state.path
    return None


def _stage_file(top: bytes, file: StagedFile) -> StagedState:
    path = path_below(top, file.attribute.path)
    if file.attribute.kind == "l":
        _stage_link(path, file)
    elif not (file.live is not None and _link_if_equal(file.live, path, file)):
        _copy_verified(path, file)
    return StagedState.of(file.attribute.path, os.lstat(path))


def _stage_link(path: bytes, file: StagedFile) -> None:
    text = read_small(file.stored, _LINK_TEXT_BYTES)
    if digest_of(text) != file.digest:
        raise _damaged(file)
    primitives.make_symlink(text, path)
    owner = (file.attribute.uid, file.attribute.gid)
    primitives.set_link_attributes(path, owner, file.attribute.mtime_ns)


def _link_if_equal(live: bytes, path: bytes, file: StagedFile) -> bool:
    """Link a live file whose digest and attributes are the wanted ones; False otherwise."""
    wanted = file.attribute
    try:
        now = os.lstat(live)
        standing = (now.st_mode, now.st_uid, now.st_gid, now.st_mtime_ns, now.st_nlink)
        if standing != (stat.S_IFREG | wanted.mode, wanted.uid, wanted.gid, wanted.mtime_ns, 1):
            return False
        state = FileState.of(now)
        if state != file.live_state:
            digest, state = hash_file(live)
            if digest != file.digest:
                return False
        primitives.link_file(live, path)
    except OSError as error:
        if error.errno in _LINK_REFUSED:
            return False
        raise
    linked = FileState.of(os.lstat(path))
    if (linked.inode, linked.size_bytes, linked.mtime_ns) == (
        state.inode,
        state.size_bytes,
        state.mtime_ns,
    ):
        return True
    primitives.remove_file(path)
    return False


def _copy_verified(path: bytes, file: StagedFile) -> None:
    """Copy a stored object and hash the copy: what will be live is what was verified."""
    source = open_file(file.stored)
    try:
        target = primitives.create_file(path)
        try:
            primitives.clone_or_copy(source, target, os.fstat(source).st_size, path)
        finally:
            os.close(target)
    finally:
        os.close(source)
    digest, _state = hash_file(path)
    if digest != file.digest:
        raise _damaged(file)
    wanted = file.attribute
    primitives.set_attributes(path, wanted.mode, (wanted.uid, wanted.gid), wanted.mtime_ns)


def _damaged(file: StagedFile) -> DamagedStoreError:
    return DamagedStoreError(
        f"the stored object {file.digest[:16]} for {shown(file.attribute.path)} is damaged",
        "cachekeeper check names every pin and snapshot it belongs to",
    )
