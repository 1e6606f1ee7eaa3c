import ctypes
import errno
import os
import stat

import pytest
from trees import Stop, read, steps_of, stop_before, tree, write

from cachekeeper.fs import primitives

OWNER = (os.geteuid(), os.getegid())


def _on_open_file(action):
    """Do something with a descriptor of the file, open for writing at its end."""

    def call(top):
        descriptor = os.open(top + b"/file", os.O_RDWR)
        try:
            os.lseek(descriptor, 0, os.SEEK_END)
            action(descriptor, top)
        finally:
            os.close(descriptor)

    return call


def _copy_over(descriptor, top):
    source = os.open(top + b"/other", os.O_RDONLY)
    try:
        primitives.clone_or_copy(source, descriptor, 3, top)
    finally:
        os.close(source)


# (name of the step, the primitive's call) with the files `file`, `other` and the directory `dir`.
CALLS = [
    ("mkdir", lambda top: primitives.make_directory(top + b"/new", 0o755)),
    ("create", lambda top: os.close(primitives.create_file(top + b"/new"))),
    ("write", _on_open_file(lambda fd, top: primitives.write_all(fd, b"more", top))),
    ("copy", _on_open_file(_copy_over)),
    ("fsync", _on_open_file(primitives.sync_file)),
    ("fsync", primitives.sync_directory),
    ("syncfs", primitives.sync_file_system),
    ("chmod", lambda top: primitives.set_directory_mode(top + b"/dir", 0o500)),
    ("chmod", _on_open_file(primitives.make_read_only)),
    ("attributes", lambda top: primitives.set_attributes(top + b"/file", 0o600, OWNER, 5)),
    ("attributes", lambda top: primitives.set_link_attributes(top + b"/file", OWNER, 5)),
    ("link", lambda top: primitives.link_file(top + b"/file", top + b"/new")),
    ("symlink", lambda top: primitives.make_symlink(b"file", top + b"/new")),
    ("rename", lambda top: primitives.rename(top + b"/file", top + b"/other")),
    ("rename-new", lambda top: primitives.rename_new(top + b"/file", top + b"/new")),
    ("exchange", lambda top: primitives.exchange(top + b"/file", top + b"/dir")),
    ("unlink", lambda top: primitives.remove_file(top + b"/file")),
    ("rmdir", lambda top: primitives.remove_directory(top + b"/dir")),
]


@pytest.fixture
def filled(top):
    """Give a directory with the files `file` and `other` and the directory `dir`."""
    write(top + b"/file", b"one")
    write(top + b"/other", b"two")
    os.mkdir(top + b"/dir")
    return top


@pytest.fixture
def refuse(monkeypatch):
    """Make renameat2 fail with an errno, as file systems without it do."""

    def fail_with(number):
        def renameat2(*_arguments):
            ctypes.set_errno(number)
            return -1

        monkeypatch.setattr(primitives, "_renameat2", renameat2)

    return fail_with


def _state(top):
    status = os.lstat(top + b"/file"), os.lstat(top + b"/dir")
    return tree(top), [(one.st_mode, one.st_mtime_ns) for one in status]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_nothing_is_done_when_the_hook_stops_it(filled, name, call):
    """The hook is called with the primitive's name before anything changes."""
    before = _state(filled)
    heard = []

    def stop(step, _path):
        heard.append(step)
        raise Stop

    with primitives.before_each(stop), pytest.raises(Stop):
        call(filled)
    assert (before, [name]) == (_state(filled), heard)


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_each_primitive_is_one_step(filled, name, call):
    """The hook hears of each primitive once, by its name."""
    assert [name] == [step for step, _path in steps_of(lambda: call(filled))]


def test_hooks_are_put_back(filled):
    """An inner hook replaces the outer one until its block ends, also by an exception."""
    heard = []
    with primitives.before_each(lambda _name, _path: heard.append("outer")):
        with pytest.raises(Stop), stop_before(0):
            primitives.sync_directory(filled)
        primitives.sync_directory(filled)
    primitives.sync_directory(filled)
    assert heard == ["outer"]


@pytest.mark.parametrize("umask", [0, 0o077])
@pytest.mark.parametrize("mode", [0o700, 0o755, 0o2775, 0o500])
def test_directories_have_exactly_the_wanted_mode(top, mode, umask):
    """The umask takes nothing away and leaves nothing open."""
    previous = os.umask(umask)
    try:
        primitives.make_directory(top + b"/new", mode)
    finally:
        os.umask(previous)
    assert mode == stat.S_IMODE(os.stat(top + b"/new").st_mode)


def test_new_files_are_private_and_new(filled):
    """A created file has mode 0600; an existing file or a dangling link is never opened."""
    os.symlink(b"nowhere", filled + b"/link")
    descriptor = primitives.create_file(filled + b"/new")
    assert stat.S_IMODE(os.fstat(descriptor).st_mode) == 0o600
    os.close(descriptor)
    for name in (b"/file", b"/link"):
        with pytest.raises(FileExistsError):
            primitives.create_file(filled + name)
    assert not os.path.exists(filled + b"/nowhere")


def test_short_writes_are_continued(filled, monkeypatch):
    """Everything is written where the system takes a few bytes at a time."""
    real = os.write
    monkeypatch.setattr(primitives.os, "write", lambda fd, data: real(fd, data[:3]))
    descriptor = primitives.create_file(filled + b"/new")
    primitives.write_all(descriptor, memoryview(b"0123456789"), filled + b"/new")
    primitives.write_all(descriptor, b"", filled + b"/new")
    monkeypatch.undo()
    os.close(descriptor)
    assert read(filled + b"/new") == b"0123456789"


def _copied(top, content, size_bytes):
    """Return what is in a new file after filling it from a file with this content."""
    write(top + b"/source", content)
    source = os.open(top + b"/source", os.O_RDONLY)
    target = primitives.create_file(top + b"/target")
    try:
        primitives.clone_or_copy(source, target, size_bytes, top + b"/target")
    finally:
        os.close(source)
        os.close(target)
    return read(top + b"/target")


@pytest.mark.parametrize("size", [0, 1, 4096, 3 * 1024 * 1024 + 1])
def test_content_is_copied_whole(top, size):
    """A file is filled with all that its source holds, on any file system."""
    content = os.urandom(size)
    assert content == _copied(top, content, size)


def test_a_source_shorter_than_said_ends_the_copy(top):
    """A source that shrank gives what it has; its digest will tell."""
    assert _copied(top, b"short", 100) == b"short"


def test_a_copy_goes_on_after_a_partial_one(top, monkeypatch):
    """The kernel may copy less than asked; the rest follows at its place."""
    real = os.sendfile
    monkeypatch.setattr(
        primitives.os, "sendfile", lambda to, source, at, count: real(to, source, at, min(count, 7))
    )
    content = bytes(range(100))
    assert content == _copied(top, content, 100)


def test_a_reflink_is_taken_where_the_file_system_gives_one(top, monkeypatch):
    """After FICLONE succeeded nothing is copied: the target already shares the source's blocks."""

    def clone(target, request, source):
        assert request == 0x40049409
        os.pwrite(target, os.pread(source, 100, 0), 0)
        return 0

    monkeypatch.setattr(primitives.fcntl, "ioctl", clone)
    monkeypatch.setattr(primitives, "_copy", lambda *_arguments: pytest.fail("copied too"))
    assert _copied(top, b"shared", 6) == b"shared"


def test_a_full_disk_is_told(top, monkeypatch):
    """An error of the copy itself is raised, it is not taken for a missing reflink."""

    def full(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(primitives.os, "sendfile", full)
    with pytest.raises(OSError, match="No space left"):
        _copied(top, b"content", 7)


def test_a_failed_sync_of_a_file_system_is_told(top, monkeypatch):
    """`syncfs` reports a write error that nobody else heard of; it is raised with the path."""

    class FailingLibrary:
        @staticmethod
        def syncfs(_descriptor):
            ctypes.set_errno(errno.EIO)
            return -1

    monkeypatch.setattr(primitives, "_libc", FailingLibrary)
    with pytest.raises(OSError, match="Input/output error") as caught:
        primitives.sync_file_system(top)
    assert (errno.EIO, top) == (caught.value.errno, caught.value.filename)


def test_attributes_are_set_together(filled):
    """Mode, with set-id bits, and mtime to the nanosecond; the atime stays."""
    path = filled + b"/file"
    os.utime(path, ns=(11, 12))
    status = os.stat(path)
    primitives.set_attributes(path, 0o4751, (status.st_uid, status.st_gid), 1_234_567_891)
    now = os.stat(path)
    assert (stat.S_IMODE(now.st_mode), now.st_mtime_ns) == (0o4751, 1_234_567_891)
    assert now.st_atime_ns == 11


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_an_owner_is_set_where_it_differs(filled):
    """Owner and group are set before the mode, so set-id bits survive."""
    primitives.set_attributes(filled + b"/file", 0o6755, (12, 34), 5)
    now = os.stat(filled + b"/file")
    assert (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (12, 34, 0o6755)


def test_another_owner_is_refused_before_the_mode_changes(open_top, as_nobody):
    """Who is not root cannot give a file to root, and is told so."""
    with as_nobody():
        path = write(open_top + b"/mine", b"mine", 0o644)
        with pytest.raises(PermissionError):
            primitives.set_attributes(path, 0o600, (0, 0), 5)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644


@pytest.mark.parametrize("owner", [None, (12, 34)])
def test_attributes_of_a_link_are_its_own(filled, owner):
    """The link's owner and mtime are set, those of its target stay."""
    if owner and os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.symlink(b"file", filled + b"/link")
    before = os.stat(filled + b"/file")
    wanted = owner or (before.st_uid, before.st_gid)
    primitives.set_link_attributes(filled + b"/link", wanted, 77)
    link, after = os.lstat(filled + b"/link"), os.stat(filled + b"/file")
    assert (*wanted, 77) == (link.st_uid, link.st_gid, link.st_mtime_ns)
    assert (before.st_uid, before.st_mtime_ns) == (after.st_uid, after.st_mtime_ns)


def test_a_directorys_mode_is_set(filled):
    """All permission bits are set, and the time of the last change of its entries stays."""
    before = os.stat(filled + b"/dir")
    primitives.set_directory_mode(filled + b"/dir", 0o2510)
    now = os.stat(filled + b"/dir")
    assert (0o2510, before.st_mtime_ns) == (stat.S_IMODE(now.st_mode), now.st_mtime_ns)


def test_an_open_file_is_made_read_only(filled):
    """A stored object has mode 0444, whatever its creator's umask."""
    descriptor = primitives.create_file(filled + b"/new")
    primitives.make_read_only(descriptor, filled + b"/new")
    os.close(descriptor)
    assert stat.S_IMODE(os.stat(filled + b"/new").st_mode) == 0o444


def test_a_second_name_is_the_same_file(filled):
    """A hard link is of the file named, a symbolic link is not followed."""
    os.symlink(b"file", filled + b"/link")
    primitives.link_file(filled + b"/file", filled + b"/second")
    primitives.link_file(filled + b"/link", filled + b"/third")
    assert os.path.samefile(filled + b"/file", filled + b"/second")
    assert os.readlink(filled + b"/third") == b"file"


@pytest.mark.parametrize("number", [0, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_renaming_to_a_free_name(filled, refuse, number):
    """A free name is taken, a taken one is refused, with renameat2 and without it."""
    if number:
        refuse(number)
    primitives.rename_new(filled + b"/file", filled + b"/free")
    with pytest.raises(FileExistsError) as caught:
        primitives.rename_new(filled + b"/free", filled + b"/other")
    assert caught.value.filename == filled + b"/other"
    assert tree(filled) == {b"free": b"one", b"other": b"two", b"dir": None}


def test_a_dangling_link_is_no_free_name(filled, refuse):
    """Without renameat2 too, a link to nowhere is not overwritten."""
    refuse(errno.EINVAL)
    os.symlink(b"nowhere", filled + b"/link")
    with pytest.raises(FileExistsError):
        primitives.rename_new(filled + b"/file", filled + b"/link")


def test_renaming_what_is_not_there_is_told(filled):
    """The system's own error comes through."""
    with pytest.raises(FileNotFoundError):
        primitives.rename_new(filled + b"/missing", filled + b"/free")


def test_exchange_is_one_step_for_any_kind(filled):
    """A file and a directory change places."""
    write(filled + b"/dir/inside", b"deep")
    assert primitives.exchange(filled + b"/file", filled + b"/dir") is True
    assert tree(filled) == {
        b"file": None,
        b"file/inside": b"deep",
        b"dir": b"one",
        b"other": b"two",
    }


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_exchange_says_no(filled, refuse, number):
    """That it cannot is an answer, and nothing has moved."""
    before = tree(filled)
    refuse(number)
    assert primitives.exchange(filled + b"/file", filled + b"/other") is False
    assert before == tree(filled)


def test_the_kernels_own_no_to_an_exchange(filled):
    """A directory cannot change places with its own child: the real EINVAL is told as no."""
    os.mkdir(filled + b"/dir/child")
    assert primitives.exchange(filled + b"/dir", filled + b"/dir/child") is False


def test_other_failures_of_an_exchange_are_told(filled):
    """A missing side is an error that names the target."""
    with pytest.raises(FileNotFoundError) as caught:
        primitives.exchange(filled + b"/missing", filled + b"/file")
    assert caught.value.filename == filled + b"/file"
