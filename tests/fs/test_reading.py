import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import unhurried
from trees import read, write

from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import FormatError
from cachekeeper.fs.reading import (
    CHUNK_BYTES,
    ChangedWhileReadError,
    FileState,
    hash_file,
    open_file,
    read_small,
    read_through,
)

SECOND_NS = 1_000_000_000
TIMES = st.integers(0, 4 * 10**18)


def _read_through(path, sink):
    """Feed an opened file to a sink; the sink may do to the file what another process would."""
    descriptor = open_file(path)
    try:
        return read_through(descriptor, path, sink)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1])
def test_a_file_is_hashed_whole(top, size):
    """The digest is of all bytes, and the state is that of the file."""
    content = os.urandom(size)
    path = write(top + b"/file", content)
    expected = (digest_of(content), FileState.of(os.stat(path)))
    assert expected == hash_file(path)


def test_a_file_comes_in_chunks(top):
    """No more than a chunk is held in memory at once, and no byte is lost between two."""
    content = os.urandom(2 * CHUNK_BYTES + 5)
    pieces = []
    _read_through(write(top + b"/file", content), lambda chunk: pieces.append(bytes(chunk)))
    assert [len(piece) for piece in pieces] == [CHUNK_BYTES, CHUNK_BYTES, 5]
    assert content == b"".join(pieces)


def test_a_sparse_file_is_read_with_its_holes(top):
    """Holes are zeros."""
    path = write(top + b"/file", b"")
    os.truncate(path, 3 * CHUNK_BYTES)
    with open(path, "r+b") as file:
        file.seek(CHUNK_BYTES)
        file.write(b"x")
    assert digest_of(read(path)) == hash_file(path)[0]


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"n" * 255, b"-rf", b" "])
def test_odd_names_are_files_like_others(top, name):
    """Names are bytes: none needs to be UTF-8, and none is too long that the system takes."""
    assert digest_of(b"content") == hash_file(write(top + b"/" + name))[0]


@pytest.mark.parametrize("size", [1, CHUNK_BYTES + 1])
@pytest.mark.parametrize("change", ["append", "truncate", "rewrite"])
def test_a_file_that_changes_while_it_is_read_is_told(top, size, change):
    """Growing, shrinking, or another content of the same size: what was read is no file's."""
    path = write(top + b"/file", b"x" * size)
    os.utime(path, ns=(5, 5))

    def writer(_chunk):
        if change == "append":
            os.truncate(path, size + 1)
        elif change == "truncate":
            os.truncate(path, 0)
        else:
            os.utime(path, ns=(5, 6))

    with pytest.raises(ChangedWhileReadError, match="file changed while it was read"):
        _read_through(path, writer)


def test_a_file_that_grows_for_ever_is_not_read_for_ever(top, monkeypatch):
    """Reading ends once there is more than the file had: a busy writer is not chased."""
    path = write(top + b"/file", b"")
    real = os.readv
    reads = []

    def busy_writer(descriptor, buffers):
        assert len(reads) < 10
        reads.append(os.fstat(descriptor).st_size)
        with open(path, "ab") as file:
            file.write(b"x" * 10)
        return real(descriptor, buffers)

    monkeypatch.setattr(os, "readv", busy_writer)
    with pytest.raises(ChangedWhileReadError):
        hash_file(path)
    assert reads == [0]


def test_a_vanished_file_is_the_systems_error(top):
    """A file that is not there any more is not taken for an empty one."""
    with pytest.raises(FileNotFoundError):
        hash_file(top + b"/missing")


def test_a_replaced_file_is_read_as_it_was_opened(top):
    """After a rename over it the opened file is still read whole, or said to have changed."""
    path = write(top + b"/file", b"old" * CHUNK_BYTES)
    pieces = []

    def writer(chunk):
        pieces.append(bytes(chunk))
        if len(pieces) == 1:
            os.rename(write(top + b"/new", b"new"), path)

    try:
        _read_through(path, writer)
    except ChangedWhileReadError:
        return
    assert b"".join(pieces) == b"old" * CHUNK_BYTES


def test_links_are_not_followed(top):
    """A link in the place of a file is refused by the system."""
    write(top + b"/file")
    os.symlink(b"file", top + b"/link")
    with pytest.raises(OSError, match="symbolic links"):
        open_file(top + b"/link")


def test_a_fifo_is_refused_without_waiting(top):
    """A FIFO without a writer would block for ever; it is no regular file."""
    os.mkfifo(top + b"/fifo")
    with pytest.raises(FormatError, match="fifo is not a regular file"):
        open_file(top + b"/fifo")


@pytest.mark.parametrize("path", [b"/dev/null", b"/dev/zero", b"/"])
def test_devices_and_directories_are_refused(path):
    """Only regular files are read."""
    with pytest.raises(FormatError, match="not a regular file"):
        open_file(path)


def test_a_socket_is_refused_by_the_system(top, monkeypatch):
    """Nothing can be opened there."""
    monkeypatch.chdir(os.fsdecode(top))  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(OSError, match="No such device"):
            open_file(b"socket")


def test_no_descriptor_stays_open(top):
    """Reading or refusing a hundred thousand files does not use up descriptors."""
    os.mkfifo(top + b"/fifo")
    path = write(top + b"/file", b"content")
    before = len(os.listdir("/proc/self/fd"))
    hash_file(path)
    read_small(path, 100)
    for refused in (lambda: open_file(top + b"/fifo"), lambda: read_small(path, 1)):
        with pytest.raises(FormatError):
            refused()
    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("size", [0, 1, 10])
def test_a_small_file_is_read_up_to_the_limit(top, size):
    """A file of exactly the limit is read."""
    content = b"x" * size
    assert content == read_small(write(top + b"/file", content), 10)


def test_a_larger_file_is_refused_unread(top):
    """One byte more than the limit is refused, with both numbers."""
    path = write(top + b"/file", b"x" * 11)
    with pytest.raises(FormatError, match="11 bytes, more than 10"):
        read_small(path, 10)


def test_a_file_that_does_not_say_its_size_is_limited_too():
    """A file of /proc says 0 bytes and gives many; so does one that grows after the first look."""
    path = b"/proc/self/maps"
    assert os.stat(path).st_size == 0
    with pytest.raises(FormatError, match="more than 100"):
        read_small(path, 100)
    assert Path("/proc/self/comm").read_bytes() == read_small(b"/proc/self/comm", 100)


@pytest.mark.parametrize("name", [b"missing", b"fifo"])
def test_only_regular_files_are_small_files(top, name):
    """A missing file is the system's error, a FIFO a wrong format."""
    os.mkfifo(top + b"/fifo")
    with pytest.raises((FileNotFoundError, FormatError)):
        read_small(top + b"/" + name, 10)


def _state(mtime_ns, ctime_ns):
    return FileState(1, mtime_ns, ctime_ns, 2, 3)


@pytest.mark.parametrize(
    ("mtime_ns", "ctime_ns", "age_ns", "expected"),
    [
        (1, 1, 50_000_001, True),
        (1, 1, 50_000_000, False),
        (1, 1, 0, False),
        (1, 1, -SECOND_NS, False),
        (0, 0, 50_000_001, False),
        (0, 0, 2_500_000_001, True),
        (0, 1, 50_000_001, True),
        (1, 0, 50_000_001, True),
        (SECOND_NS, 0, 2_500_000_001, True),
    ],
)
def test_a_file_is_settled_when_a_later_write_must_show(mtime_ns, ctime_ns, age_ns, expected):
    """One tick after the newest time; whole seconds may come from a coarse file system."""
    newest = max(mtime_ns, ctime_ns)
    assert expected == _state(mtime_ns, ctime_ns).is_settled_at(newest + age_ns)


@unhurried
@given(TIMES, TIMES, TIMES)
def test_a_settled_file_stays_settled(mtime_ns, ctime_ns, seen_ns):
    """Waiting never unsettles a file, and one from the future is not settled."""
    state = _state(mtime_ns, ctime_ns)
    if state.is_settled_at(seen_ns):
        assert state.is_settled_at(seen_ns + 1)
        assert max(mtime_ns, ctime_ns) < seen_ns
