import os
import socket
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import PATHS, unhurried
from trees import shallow_recursion, write

from cachekeeper.core.manifest import parents
from cachekeeper.fs import walk
from cachekeeper.fs.atomic import remove_tree
from cachekeeper.fs.walk import Unreadable, kind_of, walk_tree


def _kinds(top):
    return {found.path: found.kind for found in walk_tree(top).entries}


@pytest.fixture
def before_listing(monkeypatch):
    """Call a function with each directory's path before it is listed, or after it was."""

    def install(before=None, after=None):
        real = os.scandir

        @contextmanager
        def scandir(path):
            if before:
                before(path)
            with real(path) as listing:
                entries = list(listing)
            if after:
                after(path)
            yield iter(entries)

        monkeypatch.setattr(walk.os, "scandir", scandir)

    return install


def test_everything_is_found_and_nothing_is_followed(top, monkeypatch):
    """Files, directories, links and special files, the tree itself first."""
    monkeypatch.chdir(os.fsdecode(top))
    write(top + b"/t/dir/file")
    os.mkdir(top + b"/t/empty")
    os.symlink(b"dir", top + b"/t/link")
    os.symlink(b"nowhere", top + b"/t/dangling")
    os.mkfifo(top + b"/t/fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("t/socket")
        expected = {
            b"": "dir",
            b"dangling": "link",
            b"dir": "dir",
            b"dir/file": "file",
            b"empty": "dir",
            b"fifo": "special",
            b"link": "link",
            b"socket": "special",
        }
        assert expected == _kinds(top + b"/t")


def test_devices_are_special():
    """A device is neither file nor link."""
    assert kind_of(os.stat("/dev/null").st_mode) == "special"


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"n" * 255, b"%41", b" ", b"\x01"])
def test_odd_names_are_given_as_they_are(top, name):
    """Names are bytes."""
    write(top + b"/t/" + name + b"/" + name)
    assert {b"": "dir", name: "dir", name + b"/" + name: "file"} == _kinds(top + b"/t")


@unhurried
@given(st.lists(PATHS, max_size=5))
def test_entries_are_sorted_by_path_bytes(tmp_path_factory, paths):
    """Whatever the names, the order is that of manifests, and each entry stands once."""
    top = os.fsencode(tmp_path_factory.mktemp("walk"))
    files = set()
    for path in paths:
        above = set(parents(path))
        if not above & files and path not in {p for one in files for p in parents(one)}:
            write(top + b"/" + path)
            files.add(path)
    expected = sorted({b"", *files, *(parent for path in files for parent in parents(path))})
    assert expected == [found.path for found in walk_tree(top).entries]


def test_states_are_those_of_the_entries(top):
    """Each entry carries its own lstat result, a sparse file its apparent size."""
    path = write(top + b"/t/file", b"")
    os.truncate(path, 1 << 30)
    os.symlink(b"file", top + b"/t/link")
    states = {found.path: found.status for found in walk_tree(top + b"/t").entries}
    assert states[b"file"].st_size == 1 << 30
    assert {name: os.lstat(top + b"/t/" + name).st_ino for name in (b"file", b"link")} == {
        name: states[name].st_ino for name in (b"file", b"link")
    }


@pytest.mark.parametrize("kind", ["file", "link", "special"])
def test_a_tree_may_be_one_entry(top, kind):
    """A family can be a single file; a link to a directory is one entry and not followed."""
    path = top + b"/one"
    if kind == "file":
        write(path)
    elif kind == "link":
        os.symlink(top, path)
    else:
        os.mkfifo(path)
    assert {b"": kind} == _kinds(path)


def test_a_missing_tree_is_the_systems_error(top):
    """No tree is not an empty tree."""
    with pytest.raises(FileNotFoundError):
        walk_tree(top + b"/missing")


def test_a_deep_tree_is_walked(top):
    """Depth is limited by the system's paths, not by recursion."""
    os.makedirs(top + b"/t" + b"/d" * 150)
    with shallow_recursion():
        assert len(walk_tree(top + b"/t").entries) == 151


def test_a_directory_that_vanishes_is_no_longer_there(top, before_listing):
    """Removed between its parent's listing and its own, it is left as an empty directory."""
    write(top + b"/t/gone/file")
    write(top + b"/t/kept/file")

    def remove(path):
        if path == top + b"/t/gone":
            os.unlink(path + b"/file")
            os.rmdir(path)

    before_listing(before=remove)
    tree = walk_tree(top + b"/t")
    assert tree.unreadable == ()
    assert [found.path for found in tree.entries] == [b"", b"gone", b"kept", b"kept/file"]


def test_a_file_that_vanishes_is_no_longer_there(top, before_listing):
    """Removed between the listing and its stat, it is not found."""
    write(top + b"/t/gone")
    write(top + b"/t/kept")
    before_listing(after=lambda path: os.unlink(path + b"/gone"))
    assert _kinds(top + b"/t") == {b"": "dir", b"kept": "file"}


def test_a_directory_that_became_a_file_is_told(top, before_listing):
    """What cannot be listed is named with the system's reason."""
    os.makedirs(top + b"/t/dir")

    def replace(path):
        if path == top + b"/t/dir":
            os.rmdir(path)
            write(path)

    before_listing(before=replace)
    assert (Unreadable(b"dir", "Not a directory"),) == walk_tree(top + b"/t").unreadable


def test_directories_without_permission_are_named(open_top, as_nobody):
    """One that cannot be listed, or whose entries cannot be looked at, never stops the walk."""
    with as_nobody():
        for name, mode in ((b"closed", 0), (b"names-only", 0o444), (b"open", 0o755)):
            write(open_top + b"/t/" + name + b"/file")
            os.chmod(open_top + b"/t/" + name, mode)
        found = walk_tree(open_top + b"/t")
        remove_tree(open_top + b"/t")
    assert [entry.path for entry in found.entries] == [
        b"",
        b"closed",
        b"names-only",
        b"open",
        b"open/file",
    ]
    assert {one.path: one.reason for one in found.unreadable} == {
        b"closed": "Permission denied",
        b"names-only": "Permission denied",
    }
