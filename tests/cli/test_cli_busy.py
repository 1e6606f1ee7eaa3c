"""Busy: another cachekeeper, or a live user of the files. Exit 4, and nothing is changed."""

import fcntl
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import builders
import pytest
from cli_runner import TIMEOUT_S

from cachekeeper.fs.locks import range_lock
from cachekeeper.keeper import capture
from cachekeeper.probe.live_users import Search

HOLD = "import sys\n{}\nprint('ready', flush=True)\nsys.stdin.read()\n"
OPEN = "held = open(sys.argv[1], 'rb')"
# The mmap module would keep a descriptor as well. 1 is PROT_READ, 2 is MAP_PRIVATE.
MAP = (
    "import ctypes\nwith open(sys.argv[1], 'rb') as file:\n"
    "    held = ctypes.CDLL(None).mmap(None, ctypes.c_size_t(64), 1, 2, file.fileno(), 0)"
)


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Look at the processes of these tests as the command does, and at no others."""
    processes = tmp_path / "proc"
    processes.mkdir()
    search = partial(Search, processes=os.fsencode(processes))
    monkeypatch.setattr("cachekeeper.ops.restore.Search", search)
    return processes


@pytest.fixture
def holder(alone):
    """Run processes that hold something."""
    return partial(_holder, alone)


@contextmanager
def _holder(processes, code: str, path: bytes, **environment: str):
    """Run a process that holds something until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(code), path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | environment,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == b"ready\n"
        (processes / str(process.pid)).symlink_to(f"/proc/{process.pid}")
        yield process.pid
    finally:
        process.communicate(timeout=TIMEOUT_S)


@pytest.mark.parametrize(("code", "why"), [(OPEN, "open"), (MAP, "mapped")])
def test_a_live_user_of_the_files_stops_a_restore(ck, pinned, holder, code, why):
    """A process that has a file open or mapped is named; without it the restore is done."""
    pinned.overwrite()
    before = pinned.families()
    with holder(code, pinned.model(1)) as pid:
        found = ck("restore")
        assert found.code == 4
        assert found.error.startswith(f"process {pid} (")
        assert found.error.endswith(f"rank_1_0/model {why}")
        assert "--force" in found.hint
        assert ck("restore", "--dry-run").code == 4
        assert pinned.families() == before
    assert ck("restore").code == 0


def test_force_restores_under_a_live_user(ck, pinned, holder):
    """--force goes on, and the user is still named in the JSON."""
    pinned.overwrite()
    with holder(OPEN, pinned.model()) as pid:
        data = ck.json("restore", "--force")
        assert [user["pid"] for user in data["users"]] == [pid]
        assert [unit["name"] for unit in data["restored"]] == ["fast"]


def test_a_vllm_that_serves_from_the_root_stops_a_restore(ck, pinned, holder):
    """A vLLM process whose effective root is this one is a user of every family."""
    pinned.overwrite()
    root = os.fsdecode(pinned.root)
    with holder("held = None", b"vllm", VLLM_CACHE_ROOT=root):
        found = ck("restore")
        assert (found.code, "is a vLLM that serves from" in found.error) == (4, True)


def test_a_vllm_of_another_root_is_no_user(ck, pinned, holder):
    """Another vLLM on the machine stops nothing."""
    pinned.overwrite()
    with holder("held = None", b"vllm", VLLM_CACHE_ROOT="/nowhere"):
        assert ck("restore").code == 0


def test_an_intact_unit_needs_no_quiet(ck, pinned, holder):
    """Where nothing is to be replaced, a live user is in nobody's way."""
    with holder(MAP, pinned.model()):
        assert len(ck.json("restore")["unchanged"]) == 1


def test_other_families_may_be_in_use(ck, pinned, holder):
    """Only users of what is replaced count."""
    pinned.overwrite()
    with holder(OPEN, pinned.model(0, pinned.second)):
        assert ck("restore").code == 0


@contextmanager
def locked_root(root: bytes, operation: int):
    """Hold a root as another cachekeeper does."""
    descriptor = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, operation)
        yield
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "command", [("scan",), ("verify",), ("snapshot",), ("pins",), ("pin", "SECOND"), ("restore",)]
)
def test_a_root_that_is_being_restored_is_busy(ck, pinned, command):
    """Everything that reads the root waits, for --lock-timeout seconds at most."""
    words = [pinned.second.aot if word == "SECOND" else word for word in command]
    with locked_root(pinned.root, fcntl.LOCK_EX):
        found = ck(*words, "--lock-timeout", "0")
        assert (found.code, "is in use by another cachekeeper" in found.error) == (4, True)
        assert "--lock-timeout" in found.hint
    assert ck(*words).code == 0


def test_a_root_that_is_being_read_can_be_read(ck, pinned):
    """Readers share a root; only a restore must wait for them."""
    pinned.overwrite()
    with locked_root(pinned.root, fcntl.LOCK_SH):
        assert ck("verify", "--lock-timeout", "0").code == 1
        assert ck("snapshot", "--lock-timeout", "0").code == 0
        assert ck("restore", "--lock-timeout", "0").code == 4
    assert ck("restore").code == 0


def test_a_store_that_is_being_collected_is_busy(ck, pinned):
    """Garbage collection holds the store alone; what adds to it or reads its objects waits."""
    lock = os.path.join(pinned.store, b"lock")
    pinned.overwrite()
    commands = (
        ("snapshot",),
        ("pin", pinned.second.aot),
        ("mark", "fast", "suspect", "--reason", "r"),
        ("unpin", "fast", "--yes"),
        ("check",),
        ("rebuild",),
        ("restore",),
    )
    with range_lock(lock, 0, exclusive=True, timeout_s=0):
        for command in commands:
            found = ck("--lock-timeout", "0.01", *command)
            assert (found.code, "the store is in use" in found.error) == (4, True)
            assert "waited 0.01 s" in found.error
    assert ck("restore").code == 0


def test_a_file_that_never_rests_is_busy(ck, place, monkeypatch):
    """A root that changes each time it is read is told to be busy, and nothing is recorded."""
    walk = capture.walk_tree

    def restless(top):
        builders.write(place.root + b"/modelinfos/new.json", b"{}", place.clock.tick())
        return walk(top)

    monkeypatch.setattr(capture, "walk_tree", restless)
    found = ck("snapshot")
    assert (found.code, "changes while it is read" in found.error) == (4, True)
    assert ck.json("log")["events"] == []
