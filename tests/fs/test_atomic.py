import errno
import os
import stat
from contextlib import suppress

import pytest
from trees import Stop, read, shallow_recursion, steps_of, stop_before, tree, write

from cachekeeper.fs import primitives
from cachekeeper.fs.atomic import ensure_directory, remove_tree, write_new_file


def _write(top):
    write_new_file(top + b"/final", top + b"/final.tmp", b"new")


def test_a_file_is_written_beside_and_then_named(top):
    """Content, then fsync, then the name, then the directory's fsync: in this order."""
    expected = [
        ("create", b"final.tmp"),
        ("write", b"final.tmp"),
        ("fsync", b"final.tmp"),
        ("rename", b"final"),
        ("fsync", os.path.basename(top)),
    ]
    assert expected == steps_of(lambda: _write(top))
    assert tree(top) == {b"final": b"new"}


@pytest.mark.parametrize("failing", [None, "write"])
def test_no_descriptor_stays_open(top, failing):
    """Whether writing succeeds or fails, the file is closed."""
    before = len(os.listdir("/proc/self/fd"))

    def fail(name, _path):
        if name == failing:
            raise OSError(errno.ENOSPC, "No space left on device")

    with primitives.before_each(fail), suppress(OSError):
        _write(top)
    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("number", range(5))
def test_stopped_anywhere_the_file_is_old_or_new(top, number, old):
    """Before each step the name holds the whole old file, or none, or the whole new one."""
    if old:
        write(top + b"/final", old)
    with pytest.raises(Stop), stop_before(number):
        _write(top)
    expected = b"new" if number == 4 else old
    assert expected == (read(top + b"/final") if os.path.exists(top + b"/final") else None)


def test_no_step_is_left_after_the_last(top):
    """The writing has five steps, so the test above stops before each of them."""
    assert len(steps_of(lambda: _write(top))) == 5


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
def test_a_failure_leaves_no_temporary_file(top, step):
    """A full disk is raised, and the half-written file is gone."""

    def fail(name, path):
        if name == step and path != top:
            raise OSError(errno.ENOSPC, "No space left on device")

    with primitives.before_each(fail), pytest.raises(OSError, match="No space"):
        _write(top)
    assert tree(top) == {}


def test_a_failure_to_clean_up_does_not_hide_the_cause(top):
    """Where even the removal fails, what went wrong first is raised."""

    def fail(name, _path):
        if name in ("fsync", "unlink"):
            raise OSError(errno.EIO, f"failed {name}")

    with primitives.before_each(fail), pytest.raises(OSError, match="failed fsync"):
        _write(top)


def test_another_processes_temporary_file_is_left_alone(top):
    """A temporary name that is taken is somebody else's: refused, and not removed."""
    write(top + b"/final.tmp", b"theirs")
    with pytest.raises(FileExistsError):
        _write(top)
    assert tree(top) == {b"final.tmp": b"theirs"}


def test_missing_parents_are_made_with_the_mode(top):
    """Each missing directory is made with exactly the mode, existing ones stay as they are."""
    os.mkdir(top + b"/a", 0o755)
    ensure_directory(top + b"/a/b/c", 0o700)
    modes = [stat.S_IMODE(os.stat(top + path).st_mode) for path in (b"/a", b"/a/b", b"/a/b/c")]
    assert modes == [0o755, 0o700, 0o700]


def test_an_existing_directory_is_no_step(top):
    """Nothing happens where the directory, or a link to one, is there."""
    os.symlink(top, top + b"/link")
    assert steps_of(lambda: ensure_directory(top + b"/link", 0o700)) == []


def test_a_relative_directory_ends_at_the_working_directory(top, monkeypatch):
    """A path without a parent is made where the process stands."""
    monkeypatch.chdir(os.fsdecode(top))
    ensure_directory(b"new", 0o755)
    assert tree(top) == {b"new": None}


def test_a_directory_made_meanwhile_by_another_process_is_fine(top):
    """Two processes may make the same directories at the same time."""

    def other_process(_name, path):
        os.mkdir(path)

    with primitives.before_each(other_process):
        ensure_directory(top + b"/a/b", 0o700)
    assert tree(top) == {b"a": None, b"a/b": None}


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_something_else_in_the_place_of_a_directory_is_told(top, kind):
    """A file in the place of a directory is not taken for one."""
    if kind == "file":
        write(top + b"/a", b"file")
    else:
        os.symlink(b"nowhere", top + b"/a")
    for path in (b"/a", b"/a/b"):
        with pytest.raises(FileExistsError):
            ensure_directory(top + path, 0o700)


def test_a_tree_is_removed_whole(top):
    """Files, links, special files, odd names and nested directories all go."""
    write(top + b"/t/a/b/\xff\n", b"x", 0o400)
    write(top + b"/t/" + b"n" * 255, b"x")
    os.mkfifo(top + b"/t/fifo")
    os.symlink(b"nowhere", top + b"/t/link")
    os.mkdir(top + b"/t/empty")
    remove_tree(top + b"/t")
    assert tree(top) == {}


def test_links_are_never_followed(top):
    """A link to a directory is removed; what it leads to stays."""
    write(top + b"/precious/file", b"x")
    os.makedirs(top + b"/t/inner")
    os.symlink(top + b"/precious", top + b"/t/inner/link")
    os.symlink(top + b"/precious/file", top + b"/t/file")
    remove_tree(top + b"/t")
    assert tree(top) == {b"precious": None, b"precious/file": b"x"}


def test_a_link_in_the_place_of_the_tree_is_not_followed(top):
    """Where the tree itself is a link, nothing that it leads to is touched."""
    write(top + b"/precious/file", b"x")
    os.symlink(b"precious", top + b"/t")
    remove_tree(top + b"/t")
    assert {b"precious": None, b"precious/file": b"x"}.items() <= tree(top).items()


def test_what_is_gone_already_is_fine(top):
    """A tree, a file or a directory that vanishes meanwhile is no error."""
    write(top + b"/t/a/file", b"x")
    remove_tree(top + b"/missing")
    removed = {"unlink": os.unlink, "rmdir": os.rmdir}
    with primitives.before_each(lambda name, path: removed[name](path)):
        remove_tree(top + b"/t")
    assert tree(top) == {}


def test_a_directory_that_vanishes_before_it_is_listed_is_fine(top):
    """Another process may remove whole directories of the tree."""
    write(top + b"/t/a/file", b"x")
    write(top + b"/t/file", b"x")

    def other_process(name, path):
        if (name, path) == ("unlink", top + b"/t/file"):
            os.unlink(top + b"/t/a/file")
            os.rmdir(top + b"/t/a")

    with primitives.before_each(other_process):
        remove_tree(top + b"/t")
    assert tree(top) == {}


def test_files_go_before_the_directories_beside_them(top):
    """An intent is removed first, so a removal that is stopped leaves only litter."""
    write(top + b"/t/a/inside", b"x")
    write(top + b"/t/z-intent", b"x")
    write(top + b"/t/a/b/deep", b"x")
    expected = [
        ("unlink", b"z-intent"),
        ("unlink", b"inside"),
        ("unlink", b"deep"),
        ("rmdir", b"b"),
        ("rmdir", b"a"),
        ("rmdir", b"t"),
    ]
    assert expected == steps_of(lambda: remove_tree(top + b"/t"))


def test_a_removal_may_be_stopped_and_repeated(top):
    """Stopped before any step, the next removal finishes it."""
    for number in range(6):
        write(top + b"/t/a/b/file", b"x")
        write(top + b"/t/file", b"x")
        with stop_before(number):
            try:
                remove_tree(top + b"/t")
            except Stop:
                assert number < 5
        remove_tree(top + b"/t")
        assert tree(top) == {}


def test_a_deep_tree_is_removed(top):
    """A tree deeper than Python's recursion is removed."""
    os.makedirs(top + b"/t" + b"/d" * 150)
    with shallow_recursion():
        remove_tree(top + b"/t")
    assert tree(top) == {}


def test_a_failure_is_told(top):
    """What cannot be removed is an error, never skipped."""

    def fail(name, _path):
        if name == "unlink":
            raise OSError(errno.EIO, "Input/output error")

    write(top + b"/t/file", b"x")
    with primitives.before_each(fail), pytest.raises(OSError, match="Input/output"):
        remove_tree(top + b"/t")


def test_directories_without_write_permission_are_removed(open_top, as_nobody):
    """An owner who is not root can remove a tree that was protected with chmod."""
    with as_nobody():
        write(open_top + b"/t/a/b/file", b"x", 0o400)
        write(open_top + b"/t/c/file", b"x")
        for path, mode in ((b"/t/a/b", 0o555), (b"/t/a", 0o555), (b"/t/c", 0), (b"/t", 0o555)):
            os.chmod(open_top + path, mode)
        remove_tree(open_top + b"/t")
    assert tree(open_top) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="another owner is made by root")
def test_another_owners_tree_is_refused(open_top, as_nobody):
    """Without the right to remove a tree nothing of it goes, and the path is told."""
    write(open_top + b"/t/file", b"x")
    with as_nobody(), pytest.raises(PermissionError) as caught:
        remove_tree(open_top + b"/t")
    assert caught.value.filename == open_top + b"/t"
    assert tree(open_top) == {b"t": None, b"t/file": b"x"}
