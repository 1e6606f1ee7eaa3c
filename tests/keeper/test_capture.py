"""Capturing a family: what is kept, what is left out, and what fails."""

import os
import threading

import builders
import pytest
from builders import Clock

from cachekeeper.core.errors import BusyError
from cachekeeper.fs.reading import ChangedWhileReadError
from cachekeeper.keeper import capture
from cachekeeper.keeper.capture import CaptureOptions, capture_family
from cachekeeper.layouts.families import FamilyPlace

OTHER = FamilyPlace("other", "odd", b"odd", recognised=False, note="")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def odd(top, clock):
    """Give a family with one of each: files, locks, temporary ones, links, odd names."""
    family = top + b"/odd"
    builders.write(family + b"/file", b"content", clock.tick(), 0o640)
    builders.write(family + b"/empty", b"", clock.tick())
    builders.write(family + b"/\xff\n%41", b"odd name", clock.tick())
    builders.write(family + b"/held.lock", b"pid 1", clock.tick())
    builders.write(family + b"/model.1.tmp", b"half", clock.tick())
    builders.write(family + b"/tmp.pid_1/kernel", b"half", clock.tick())
    builders.write(family + b"/saved.tmp/kernel", b"whole", clock.tick())
    builders.link(family + b"/link", b"/etc/hostname", clock.tick())
    os.makedirs(family + b"/nothing/inside")
    return family


def test_content_is_what_is_neither_lock_nor_temporary(odd):
    """The manifest has files and links; a directory *.tmp holds content, tmp.* does not."""
    found = capture_family(odd, OTHER, CaptureOptions())
    assert {entry.path: entry.kind for entry in found.manifest.entries} == {
        b"file": "f",
        b"empty": "f",
        b"\xff\n%41": "f",
        b"saved.tmp/kernel": "f",
        b"link": "l",
    }
    assert found.left_out == {"lock": 1, "temporary": 2}


def test_digests_are_of_the_bytes(odd):
    """A file's digest is of its content, a link's of its target."""
    entries = capture_family(odd, OTHER, CaptureOptions()).manifest.by_path()
    assert entries[b"file"].digest == builders.digest(b"content")
    assert entries[b"link"].digest == builders.digest(b"/etc/hostname")


def test_attributes_tell_how_it_stands(odd):
    """Every directory, file, link and lock has its mode, owner and time; nothing temporary has."""
    attributes = capture_family(odd, OTHER, CaptureOptions()).attributes.by_path()
    tree = builders.tree_of(odd)
    kinds = {path: entry.kind for path, entry in attributes.items()}
    assert kinds == {
        b"": "d", b"nothing": "d", b"nothing/inside": "d", b"saved.tmp": "d",
        b"file": "f", b"empty": "f", b"\xff\n%41": "f", b"saved.tmp/kernel": "f", b"link": "l",
        b"held.lock": "k",
    }  # fmt: skip
    for path, entry in attributes.items():
        node = tree[path]
        stands = (entry.mode, entry.uid, entry.gid, entry.mtime_ns)
        assert stands == (node.mode, node.uid, node.gid, node.mtime_ns)


def test_what_is_no_file_is_told(odd):
    """A FIFO is not opened, and named."""
    os.mkfifo(odd + b"/pipe")
    (problem,) = capture_family(odd, OTHER, CaptureOptions()).problems
    assert (problem.code, problem.path, problem.severity) == ("special-file", b"pipe", "notice")


def test_temporary_files_can_be_kept(odd, store):
    """Content that is about to go is kept with its temporary files, which are no part of it."""
    plain = capture_family(odd, OTHER, CaptureOptions())
    options = CaptureOptions(objects=store.objects, keep_temporary=True)
    whole = capture_family(odd, OTHER, options)
    assert whole.manifest == plain.manifest
    kinds = {entry.path: entry.kind for entry in whole.attributes.entries}
    assert (kinds[b"model.1.tmp"], kinds[b"tmp.pid_1/kernel"]) == ("t", "t")
    stored = builders.stored_digests(store.path)
    assert {builders.digest(each) for each in (b"half", b"pid 1", b"content")} <= stored


def test_storing_counts_new_bytes_once(odd, store):
    """The first capture stores the bytes, the second finds them."""
    first = capture_family(odd, OTHER, CaptureOptions(objects=store.objects))
    again = capture_family(odd, OTHER, CaptureOptions(objects=store.objects))
    assert (first.new_bytes > 0, again.new_bytes) == (True, 0)
    assert again.read_bytes == first.read_bytes


def test_equal_files_stored_at_once_are_new_once(top, store, clock, monkeypatch):
    """Two threads that both found an object missing have not stored two of it."""
    for name in (b"one", b"two"):
        builders.write(top + b"/odd/" + name, b"the same bytes", clock.tick())
    both, has = threading.Barrier(2, timeout=60), store.objects.has

    def has_for_both(digest, size_bytes):
        found = has(digest, size_bytes)
        both.wait()
        return found

    monkeypatch.setattr(type(store.objects), "has", lambda _self, *args: has_for_both(*args))
    found = capture_family(top + b"/odd", OTHER, CaptureOptions(objects=store.objects))
    assert found.new_bytes == len(b"the same bytes")


def test_memory_saves_reading_but_not_storing(odd, store):
    """A remembered file is not read, unless the store lacks its object."""
    os.utime(odd + b"/file", ns=(1, 1))
    known = capture_family(odd, OTHER, CaptureOptions())
    memory = {
        path: (capture.FileState.of(os.lstat(os.path.join(odd, path))), entry.digest)
        for path, entry in known.manifest.by_path().items()
        if entry.kind == "f"
    }
    lies = memory | {b"file": (memory[b"file"][0], builders.digest(b"lie"))}
    found = capture_family(odd, OTHER, CaptureOptions(memory=lies)).manifest.by_path()
    assert found[b"file"].digest == builders.digest(b"lie")
    stored = capture_family(odd, OTHER, CaptureOptions(objects=store.objects, memory=lies))
    assert stored.manifest.by_path()[b"file"].digest == builders.digest(b"content")


def test_a_family_can_be_one_file(top, clock):
    """A companion that is a single file or link has the empty path."""
    builders.write(top + b"/one.json", b"{}", clock.tick())
    place = FamilyPlace("other", "one.json", b"one.json", recognised=False, note="")
    found = capture_family(top + b"/one.json", place, CaptureOptions())
    assert [(entry.path, entry.kind) for entry in found.manifest.entries] == [(b"", "f")]
    assert [entry.kind for entry in found.attributes.entries] == ["f"]


def test_a_file_that_cannot_be_read_is_damage(odd, monkeypatch):
    """What may not be read is told and left out; the rest of the family is captured."""
    real = capture.hash_file

    def hash_file(path):
        if path.endswith(b"/file"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(capture, "hash_file", hash_file)
    found = capture_family(odd, OTHER, CaptureOptions())
    damage = [problem for problem in found.problems if problem.severity == "damaged"]
    assert [(p.code, p.path, p.detail) for p in damage] == [
        ("unreadable", b"file", "Permission denied")
    ]
    assert b"empty" in found.manifest.by_path()


def restless(monkeypatch, change, times):
    """Change the tree after each of the first walks."""
    walk, walks = capture.walk_tree, []

    def walk_tree(top):
        tree = walk(top)
        walks.append(top)
        if len(walks) <= times:
            change(len(walks))
        return tree

    monkeypatch.setattr(capture, "walk_tree", walk_tree)


def test_a_tree_that_changed_is_read_again(odd, clock, monkeypatch):
    """What is captured is a state that was really there, also of a file that came meanwhile."""
    restless(monkeypatch, lambda n: builders.write(odd + b"/n%d" % n, b"", clock.tick()), 2)
    found = capture_family(odd, OTHER, CaptureOptions())
    assert {b"n1", b"n2"} <= found.manifest.by_path().keys()


def test_a_tree_that_never_rests_is_busy(odd, clock, monkeypatch):
    """After three attempts the root is said to be busy."""
    restless(monkeypatch, lambda n: builders.write(odd + b"/n%d" % n, b"", clock.tick()), 99)
    with pytest.raises(BusyError, match="changes while it is read"):
        capture_family(odd, OTHER, CaptureOptions())


def test_a_file_that_vanished_is_looked_for_again(odd, monkeypatch):
    """A removed file is no part of what is captured in the end."""

    def remove(number):
        if number == 1:
            os.remove(odd + b"/file")

    restless(monkeypatch, remove, 1)
    assert b"file" not in capture_family(odd, OTHER, CaptureOptions()).manifest.by_path()


def test_files_that_vanish_each_time_are_busy(odd, clock, monkeypatch):
    """A name that comes and goes cannot be captured."""
    walk = capture.walk_tree

    def refill(top):
        builders.write(odd + b"/file", b"content", clock.tick())
        tree = walk(top)
        if os.path.lexists(odd + b"/file"):
            os.remove(odd + b"/file")
        return tree

    monkeypatch.setattr(capture, "walk_tree", refill)
    with pytest.raises(ChangedWhileReadError, match="vanished while it was read"):
        capture_family(odd, OTHER, CaptureOptions())


def test_locks_may_come_and_go(odd, clock, monkeypatch):
    """Locks and temporary files are no reason to read anything twice."""
    restless(monkeypatch, lambda n: builders.write(odd + b"/n%d.lock" % n, b"", clock.tick()), 99)
    assert capture_family(odd, OTHER, CaptureOptions()).left_out["lock"] == 1


def flip(path):
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))


def test_repairing_heals_the_store(odd, store):
    """Where it is asked for, a damaged object is replaced by the live file's bytes."""
    plain, repair = (CaptureOptions(objects=store.objects, repair=each) for each in (False, True))
    capture_family(odd, OTHER, plain)
    digest = builders.digest(b"content")
    flip(store.objects.path(digest))
    capture_family(odd, OTHER, plain)
    assert store.objects.verify(digest) == "damaged"
    capture_family(odd, OTHER, repair)
    assert store.objects.verify(digest) is None


def test_a_missing_store_is_no_vanished_file(odd, store):
    """An error of the store is not taken for a change of the root."""
    builders.remove_tree(store.path + b"/tmp")
    with pytest.raises(FileNotFoundError):
        capture_family(odd, OTHER, CaptureOptions(objects=store.objects))
