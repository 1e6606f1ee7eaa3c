import errno
import os
import stat
import tempfile
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import MANIFEST_ENTRIES, unhurried
from trees import Stop, read, steps_of, stop_before, tree, write

from cachekeeper.core.attributes import Attribute
from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import DamagedStoreError, FormatError
from cachekeeper.core.manifest import parents
from cachekeeper.fs import primitives
from cachekeeper.fs.atomic import remove_tree
from cachekeeper.fs.reading import FileState
from cachekeeper.fs.staging import StagedFile, confirm_tree, set_directory, stage_tree
from cachekeeper.fs.walk import walk_tree

OWNER = (os.geteuid(), os.getegid())
OLD_NS = 1_500_000_000_123_456_789
CONTENT = b"the known-fast artifact"


def _store(top, content):
    """Put content where an object would lie."""
    return write(top + b"/objects/" + digest_of(content).encode(), content, 0o444)


def _file(path, stored, content=CONTENT, kind="f", mode=0o600, **live):
    attribute = Attribute(path, kind, mode, *OWNER, OLD_NS)
    return StagedFile(attribute, digest_of(content), stored, **live)


def _directory(path, mode=0o755, mtime_ns=OLD_NS):
    return Attribute(path, "d", mode, *OWNER, mtime_ns)


def _live(top, content=CONTENT, mode=0o600):
    """Write a live file that stands exactly as `_file` wants it."""
    path = write(top + b"/live", content, mode)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return path


@pytest.fixture
def stored(top):
    """Give the path of an object with CONTENT."""
    return _store(top, CONTENT)


def test_a_tree_is_built_as_recorded(top, stored):
    """Content, links, modes and times, those of directories too, come out as they were kept."""
    target = _store(top, b"../elsewhere")
    directories = (_directory(b"", 0o700, 7), _directory(b"a", 0o555, 8), _directory(b"a/b", 0, 9))
    files = (
        _file(b"a/b/model", stored, mode=0o4640),
        _file(b"a/link", target, b"../elsewhere", kind="l"),
        _file(b"a/x.lock", _store(top, b""), b"", kind="k"),
    )
    states = stage_tree(top + b"/new", directories, files)
    found = {one.path: one.status for one in walk_tree(top + b"/new").entries}
    wanted = {one.path: one for one in (*directories, *(file.attribute for file in files))}
    assert wanted.keys() == found.keys()
    for path, status in found.items():
        assert (*OWNER, wanted[path].mtime_ns) == (
            status.st_uid,
            status.st_gid,
            status.st_mtime_ns,
        )
        if wanted[path].kind != "l":
            assert wanted[path].mode == stat.S_IMODE(status.st_mode)
    os.chmod(top + b"/new/a/b", 0o700)
    assert tree(top + b"/new")[b"a/b/model"] == CONTENT
    assert tree(top + b"/new")[b"a/link"] == (b"->", b"../elsewhere")
    assert [file.attribute.path for file in files] == [state.path for state in states]


@settings(unhurried, max_examples=10)
@given(MANIFEST_ENTRIES, st.data())
def test_any_tree_comes_out_as_it_was_kept(entries, data):
    """Whatever the names, the staged tree holds the wanted paths with the wanted bytes."""
    with tempfile.TemporaryDirectory() as directory:
        top = os.fsencode(directory)
        contents = {entry.path: data.draw(st.binary(min_size=1, max_size=5)) for entry in entries}
        contents = {path: text.replace(b"\0", b"0") for path, text in contents.items()}
        files = [
            _file(entry.path, _store(top, contents[entry.path]), contents[entry.path], entry.kind)
            for entry in entries
        ]
        above = {b"", *(parent for path in contents for parent in parents(path))}
        stage_tree(top + b"/new", tuple(map(_directory, above)), tuple(files))
        expected = {
            entry.path: contents[entry.path] if entry.kind == "f" else (b"->", contents[entry.path])
            for entry in entries
        }
        found = tree(top + b"/new")
        assert expected == {path: text for path, text in found.items() if text is not None}
        assert above - {b""} == {path for path, text in found.items() if text is None}


@pytest.mark.parametrize("kind", ["f", "l"])
def test_a_family_may_be_one_file(top, stored, kind):
    """The empty path is built at the top itself."""
    stage_tree(top + b"/new", (), (_file(b"", stored, kind=kind),))
    expected = (b"->", CONTENT) if kind == "l" else CONTENT
    assert expected == tree(top)[b"new"]


def test_a_copy_is_a_file_of_its_own(top, stored):
    """A staged file never shares the stored object's inode: vLLM writes some files in place."""
    stage_tree(top + b"/new", (), (_file(b"", stored),))
    with open(top + b"/new", "r+b") as file:
        file.write(b"X")
    assert read(stored) == CONTENT
    assert os.stat(stored).st_nlink == 1


def _flip(path):
    content = bytearray(read(path))
    content[0] ^= 1
    os.chmod(path, 0o644)
    write(path, bytes(content), 0o444)


@pytest.mark.parametrize("kind", ["f", "l", "k"])
@pytest.mark.parametrize("damage", ["flipped", "truncated"])
def test_a_damaged_object_is_never_staged_as_good(top, stored, kind, damage):
    """One flipped bit or a missing end is noticed in the copy, and the hint leads to check."""
    if damage == "flipped":
        _flip(stored)
    else:
        os.truncate(stored, 3)
    with pytest.raises(DamagedStoreError, match=digest_of(CONTENT)[:16]) as caught:
        stage_tree(top + b"/new", (_directory(b""),), (_file(b"model", stored, kind=kind),))
    assert "model is damaged" in caught.value.fact
    assert "cachekeeper check" in caught.value.hint


def test_damage_of_the_copy_itself_is_noticed(top, stored, monkeypatch):
    """What is verified is the copy: a disk that writes other bytes is found out."""
    monkeypatch.setattr(
        primitives, "clone_or_copy", lambda _source, target, *_rest: os.write(target, b"garbage")
    )
    with pytest.raises(DamagedStoreError):
        stage_tree(top + b"/new", (), (_file(b"", stored),))


def test_a_link_text_beyond_any_path_is_refused(top):
    """No link is longer than the system's paths."""
    text = b"x" * 4097
    with pytest.raises(FormatError, match="more than 4096"):
        stage_tree(top + b"/new", (), (_file(b"", _store(top, text), text, kind="l"),))


def test_a_missing_object_is_the_systems_error(top):
    """What is not in the store cannot be staged, whether it is a file or a link."""
    for kind in ("f", "l"):
        with pytest.raises(FileNotFoundError):
            stage_tree(top + b"/new", (), (_file(b"", top + b"/missing", kind=kind),))


def test_what_exists_is_never_built_over(top, stored):
    """The place must be free."""
    write(top + b"/new", b"theirs")
    with pytest.raises(FileExistsError):
        stage_tree(top + b"/new", (), (_file(b"", stored),))
    with pytest.raises(FileExistsError):
        stage_tree(top + b"/new", (_directory(b""),), ())
    assert read(top + b"/new") == b"theirs"


def test_an_equal_live_file_is_linked(top, stored):
    """A live file that is equal in bytes and attributes is not copied."""
    live = _live(top)
    stage_tree(top + b"/new", (), (_file(b"", stored, live=live),))
    assert os.path.samefile(live, top + b"/new")


def test_a_state_known_in_this_process_spares_hashing(top, stored):
    """A file hashed a moment ago, and not changed since, is linked unread."""
    live = _live(top)
    state = FileState.of(os.stat(live))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cachekeeper.fs.staging.hash_file", lambda _path: pytest.fail("was read"))
        stage_tree(top + b"/new", (), (_file(b"", stored, live=live, live_state=state),))
    assert os.path.samefile(live, top + b"/new")


def test_a_state_that_changed_does_not_spare_hashing(top, stored):
    """A remembered state of another moment is not believed."""
    live = _live(top, b"x" * len(CONTENT))
    state = FileState(len(CONTENT), OLD_NS, 0, os.stat(live).st_ino, os.stat(live).st_dev)
    stage_tree(top + b"/new", (), (_file(b"", stored, live=live, live_state=state),))
    assert not os.path.samefile(live, top + b"/new")
    assert read(top + b"/new") == CONTENT


def _second_name(live):
    os.link(live, live + b".second")


def _link_instead(live):
    os.rename(live, live + b".real")
    os.symlink(b"live.real", live)
    os.utime(live, ns=(OLD_NS, OLD_NS), follow_symlinks=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda live: os.chmod(live, 0o644),
        lambda live: os.utime(live, ns=(OLD_NS, OLD_NS + 1)),
        _second_name,
        os.unlink,
        lambda live: (_flip(live), os.chmod(live, 0o600), os.utime(live, ns=(OLD_NS, OLD_NS))),
        _link_instead,
    ],
    ids=["mode", "mtime", "second name", "vanished", "other bytes", "a link"],
)
def test_a_live_file_that_differs_is_copied_from_the_store(top, stored, change):
    """Another mode, time, link count, content or kind: the stored bytes are put there instead."""
    live = _live(top)
    change(live)
    stage_tree(top + b"/new", (), (_file(b"", stored, live=live),))
    assert read(top + b"/new") == CONTENT
    status = os.lstat(top + b"/new")
    assert (
        stat.S_IMODE(status.st_mode),
        status.st_mtime_ns,
        status.st_nlink,
    ) == (0o600, OLD_NS, 1)


def test_a_live_link_of_the_same_mode_is_no_live_file(top, stored):
    """A symbolic link has mode 0777; it is not taken for a file of mode 0777."""
    live = _live(top, mode=0o777)
    _link_instead(live)
    stage_tree(top + b"/new", (), (_file(b"", stored, mode=0o777, live=live),))
    assert tree(top)[b"new"] == CONTENT


@pytest.mark.parametrize(
    "number",
    [errno.EPERM, errno.EACCES, errno.EXDEV, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOENT],
)
def test_where_linking_is_refused_a_copy_does_as_well(top, stored, number):
    """Protected links, another file system, too many links: the tree is built all the same."""

    def refuse(name, _path):
        if name == "link":
            raise OSError(number, os.strerror(number))

    live = _live(top)
    with primitives.before_each(refuse):
        stage_tree(top + b"/new", (), (_file(b"", stored, live=live),))
    assert not os.path.samefile(live, top + b"/new")
    assert read(top + b"/new") == CONTENT


def test_a_broken_disk_is_told(top, stored):
    """An error that a copy would meet too is raised."""

    def fail(name, _path):
        if name == "link":
            raise OSError(errno.EIO, "Input/output error")

    with primitives.before_each(fail), pytest.raises(OSError, match="Input/output"):
        stage_tree(top + b"/new", (), (_file(b"", stored, live=_live(top)),))


def test_a_live_file_replaced_after_hashing_is_not_linked(top, stored):
    """A writer between the hash and the link gets his file back, the stored bytes are staged."""
    live = _live(top)

    def writer(name, _path):
        if name == "link":
            os.rename(write(top + b"/other", b"newer"), live)

    with primitives.before_each(writer):
        stage_tree(top + b"/new", (), (_file(b"", stored, live=live),))
    assert (read(live), read(top + b"/new")) == (b"newer", CONTENT)
    assert os.stat(live).st_nlink == 1


def test_building_may_be_stopped_anywhere(top, stored):
    """Stopped before any step, live files and objects are as they were, and litter can go."""
    live = _live(top)
    os.symlink(b"nowhere", top + b"/text")
    before = {**tree(top), b"objects": None}
    directories = (_directory(b""), _directory(b"a", 0o555))
    files = (
        _file(b"a/linked", stored, live=live),
        _file(b"a/copied", stored),
        _file(b"link", stored, kind="l"),
    )
    steps = steps_of(lambda: stage_tree(top + b"/new", directories, files))
    remove_tree(top + b"/new")
    for number in range(len(steps)):
        with pytest.raises(Stop), stop_before(number):
            stage_tree(top + b"/new", directories, files)
        remove_tree(top + b"/new")
        assert before == tree(top)
        assert (stat.S_IMODE(os.stat(live).st_mode), os.stat(live).st_mtime_ns) == (0o600, OLD_NS)


def test_a_directory_gets_its_attributes_back(top):
    """Mode and time are set together, also of the tree itself."""
    os.mkdir(top + b"/new")
    for path, mode in ((b"", 0o750), (b"a", 0o500)):
        os.makedirs(top + b"/new/" + path, exist_ok=True)
        set_directory(top + b"/new", _directory(path, mode, 42))
        status = os.stat(os.path.join(top + b"/new", path))
        assert (mode, 42) == (stat.S_IMODE(status.st_mode), status.st_mtime_ns)


def _staged(top, stored):
    files = (_file(b"a", stored), _file(b"link", stored, kind="l"))
    return stage_tree(top + b"/new", (_directory(b""),), files)


def test_a_tree_nobody_touched_is_confirmed(top, stored):
    """The files are those that were verified, also after the tree was moved."""
    states = _staged(top, stored)
    os.rename(top + b"/new", top + b"/live")
    assert confirm_tree(top + b"/live", states) is None
    assert confirm_tree(top + b"/live", ()) is None


@pytest.mark.parametrize(
    ("path", "change"),
    [
        (b"a", os.unlink),
        (b"a", lambda path: os.utime(path, ns=(1, 1))),
        (b"a", lambda path: os.truncate(path, 0)),
        (b"a", lambda path: os.rename(write(path + b".other"), path)),
        (b"link", lambda path: (os.unlink(path), os.symlink(b"elsewhere", path))),
    ],
    ids=["removed", "touched", "truncated", "replaced", "another link"],
)
def test_a_file_somebody_touched_is_named(top, stored, path, change):
    """The first path that is not the verified file any more is returned."""
    states = _staged(top, stored)
    change(top + b"/new/" + path)
    assert path == confirm_tree(top + b"/new", states)


def test_a_file_rewritten_in_place_is_named(top, stored):
    """Size and mtime can be put back, the time of the last change cannot."""
    states = _staged(top, stored)
    earlier = [replace(state, ctime_ns=state.ctime_ns - 1) for state in states]
    assert confirm_tree(top + b"/new", tuple(earlier)) == b"a"


def test_a_single_file_is_confirmed_too(top, stored):
    """A family that is one file is named by the empty path."""
    states = stage_tree(top + b"/new", (), (_file(b"", stored),))
    assert confirm_tree(top + b"/new", states) is None
    os.unlink(top + b"/new")
    assert confirm_tree(top + b"/new", states) == b""
