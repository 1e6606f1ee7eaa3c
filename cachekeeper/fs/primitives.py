"""Every system call that changes the disk, one function each, so that a test can stop before any.

A crash or a full disk can strike before each of these; nothing above this module calls the
operating system to change something. `before_each` is the seam: it is called with the name of the
primitive and its path, and may raise or end the process.
"""

import ctypes
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hook = Callable[[str, bytes], None]
_hook: Hook | None = None

_libc = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1  # linux/fs.h
_RENAME_EXCHANGE = 2  # linux/fs.h
_FICLONE = 0x40049409  # linux/fs.h: _IOW(0x94, 9, int)
_NO_EXCHANGE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})


@contextmanager
def before_each(hook: Hook) -> Iterator[None]:
    """Call `hook(name, path)` before each primitive, in this process, until the block ends."""
    global _hook  # noqa: PLW0603  the one seam for crash tests
    previous, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = previous


def _step(name: str, path: bytes) -> None:
    if _hook is not None:
        _hook(name, path)


def make_directory(path: bytes, mode: int) -> None:
    """Make one directory with exactly these permission bits, whatever the umask."""
    _step("mkdir", path)
    os.mkdir(path, 0o700)
    if mode != 0o700:
        os.chmod(path, mode)


def set_directory_mode(path: bytes, mode: int) -> None:
    """Set the permission bits of a directory of ours; it must not be a link."""
    _step("chmod", path)
    os.chmod(path, mode)


def create_file(path: bytes) -> int:
    """Create a new file, mode 0600, and return its descriptor, open for reading and writing."""
    _step("create", path)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def write_all(descriptor: int, data: bytes | memoryview, path: bytes) -> None:
    """Write all of `data` at the descriptor's position."""
    _step("write", path)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def clone_or_copy(source: int, target: int, size_bytes: int, path: bytes) -> None:
    """Fill the empty file `target` with what `source` holds: reflink, else copy in the kernel."""
    _step("copy", path)
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        _copy(source, target, size_bytes)


def _copy(source: int, target: int, size_bytes: int) -> None:
    done = 0
    while done < size_bytes:
        count = os.sendfile(target, source, done, min(size_bytes - done, 1 << 30))
        if count == 0:  # shorter than its size says: the digest will tell
            return
        done += count


def sync_file(descriptor: int, path: bytes) -> None:
    """Bring one file's or directory's content to the disk."""
    _step("fsync", path)
    os.fsync(descriptor)


def sync_directory(path: bytes) -> None:
    """Bring a directory's entries to the disk, so that a rename in it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(descriptor, path)
    finally:
        os.close(descriptor)


def sync_file_system(path: bytes) -> None:
    """Bring all of the file system that holds `path` to the disk: one call for many files."""
    _step("syncfs", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(descriptor) != 0:
            _raise(path)
    finally:
        os.close(descriptor)


def set_attributes(path: bytes, mode: int, owner: tuple[int, int], mtime_ns: int) -> None:
    """Set owner (where it differs), permission bits and mtime of a file or directory."""
    _step("attributes", path)
    now = os.lstat(path)
    if (now.st_uid, now.st_gid) != owner:
        os.chown(path, *owner, follow_symlinks=False)
    os.chmod(path, mode)  # after chown, which clears set-id bits
    os.utime(path, ns=(now.st_atime_ns, mtime_ns))


def set_link_attributes(path: bytes, owner: tuple[int, int], mtime_ns: int) -> None:
    """Set owner and mtime of a symbolic link itself; its mode means nothing on Linux."""
    _step("attributes", path)
    now = os.lstat(path)
    if (now.st_uid, now.st_gid) != owner:
        os.chown(path, *owner, follow_symlinks=False)
    os.utime(path, ns=(now.st_atime_ns, mtime_ns), follow_symlinks=False)


def make_read_only(descriptor: int, path: bytes) -> None:
    """Take the write permission from an open file: stored objects are never changed again."""
    _step("chmod", path)
    os.fchmod(descriptor, 0o444)


def link_file(source: bytes, target: bytes) -> None:
    """Give a live file a second name (never a stored object)."""
    _step("link", target)
    os.link(source, target, follow_symlinks=False)


def make_symlink(text: bytes, path: bytes) -> None:
    """Make a symbolic link with the given target text."""
    _step("symlink", path)
    os.symlink(text, path)


def rename(source: bytes, target: bytes) -> None:
    """Give a file its final name, over an older one if there is one."""
    _step("rename", target)
    os.rename(source, target)


def rename_new(source: bytes, target: bytes) -> None:
    """Rename to a name that must be free; raises FileExistsError."""
    _step("rename-new", target)
    if _renameat2(source, target, _RENAME_NOREPLACE) == 0:
        return
    if ctypes.get_errno() not in _NO_EXCHANGE:
        _raise(target)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target)


def exchange(first: bytes, second: bytes) -> bool:
    """Exchange two directories or files in one step; False where the file system cannot."""
    _step("exchange", second)
    if _renameat2(first, second, _RENAME_EXCHANGE) == 0:
        return True
    if ctypes.get_errno() in _NO_EXCHANGE:
        return False
    _raise(second)
    return False  # pragma: no cover  _raise never returns


def remove_file(path: bytes) -> None:
    """Remove one file or symbolic link."""
    _step("unlink", path)
    os.unlink(path)


def remove_directory(path: bytes) -> None:
    """Remove one empty directory."""
    _step("rmdir", path)
    os.rmdir(path)


def _renameat2(source: bytes, target: bytes, flag: int) -> int:
    result: int = _libc.renameat2(
        _AT_FDCWD, ctypes.c_char_p(source), _AT_FDCWD, ctypes.c_char_p(target), ctypes.c_uint(flag)
    )
    return result


def _raise(path: bytes) -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number), path)
