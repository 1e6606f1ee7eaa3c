import io
import os
import shutil
import tempfile
from contextlib import redirect_stdout
from dataclasses import dataclass

import builders
import pytest
from builders import Clock, Unit
from cli_runner import Runner
from real_trees import unpack_once

from cachekeeper.cli.main import run
from cachekeeper.keeper.keeper import Keeper, Settings
from cachekeeper.probe.live_users import LiveUsers

_MEMORY = "/dev/shm"  # a real file system where syncing costs nothing
_LENGTH = 24  # indexes hold the path, so sizes in golden files depend on it
FIRST, SECOND = builders.unit_of("first"), builders.unit_of("second", 1, mega=True)
_LATER_NS = 1_790_001_000_000_000_000


@dataclass(frozen=True)
class Place:
    """A root with a TP2 unit, a mega unit and companions, and the place of its store."""

    top: bytes
    root: bytes
    store: bytes
    first: Unit
    second: Unit
    clock: Clock

    def tree(self) -> builders.Tree:
        """Return all that stands in the root, read without cachekeeper."""
        return builders.tree_of(self.root)

    def families(self) -> dict[bytes, builders.Tree]:
        """Return what stands in each family and companion."""
        return builders.families_of(self.root)

    def model(self, rank: int = 0, unit: Unit | None = None) -> bytes:
        """Return the path of a rank's model."""
        return builders.model_path(self.root, unit or self.first, rank)

    def overwrite(self) -> None:
        """Do to the first unit what a source edit does, with extra files besides."""
        builders.overwrite_unit(self.root, self.first, "v2", self.clock)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Leave out the look at all processes of the machine: it is slow, and a vLLM may be running.

    test_cli_busy.py has the real one.
    """
    monkeypatch.setattr(
        "cachekeeper.ops.restore.find_live_users", lambda _search: LiveUsers((), ())
    )


@pytest.fixture
def ck(capsys) -> Runner:
    """Give the command line, run in this process."""
    return Runner(capsys)


@pytest.fixture(scope="session")
def session_top():
    """Give the path at which each test finds its places: absolute paths are part of content.

    It is in memory where there is such a file system, and of one length.
    """
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else tempfile.gettempdir()
    padding = "x" * (_LENGTH - len(where))
    made = tempfile.mkdtemp(prefix="cachekeeper-cli-", suffix=padding, dir=where)
    os.rmdir(made)
    return os.fsencode(os.path.realpath(made))


@pytest.fixture
def top(session_top):
    """Give an empty directory that every user may enter."""
    os.mkdir(session_top)
    os.chmod(session_top, 0o755)
    yield session_top
    shutil.rmtree(session_top)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory) -> str:
    """Make a store with a migrated catalogue once: the migration takes most of a second."""
    store = str(tmp_path_factory.mktemp("made") / "store")
    with Keeper(Settings(os.fsencode(store), ())) as keeper:
        keeper.make_store()
        keeper.catalogue.events()
    return store


@pytest.fixture(scope="session")
def pinned_once(session_top, empty_store, tmp_path_factory) -> bytes:
    """Make a root with a pin once, to be copied back to the same path."""
    root, store = session_top + b"/vllm", session_top + b"/store"
    first, _second = builders.default_root(root)
    shutil.copytree(empty_store, os.fsdecode(store))
    words = ["--root", os.fsdecode(root), "--store", os.fsdecode(store)]
    with redirect_stdout(io.StringIO()):
        assert run(["pin", first.aot, "--name", "fast", "--reason", "92 tok/s", *words]) == 0
    made = os.fsencode(tmp_path_factory.mktemp("pinned") / "top")
    shutil.move(os.fsdecode(session_top), os.fsdecode(made))
    return made


def place_at(top: bytes, monkeypatch) -> Place:
    """Let the environment name the root and the store of a place."""
    place = Place(top, top + b"/vllm", top + b"/store", FIRST, SECOND, Clock(_LATER_NS))
    monkeypatch.setenv("VLLM_CACHE_ROOT", os.fsdecode(place.root))
    monkeypatch.setenv("CACHEKEEPER_STORE", os.fsdecode(place.store))
    return place


@pytest.fixture
def newcomer(top, monkeypatch) -> Place:
    """Give a root and no store yet; the environment names both."""
    builders.default_root(top + b"/vllm")
    return place_at(top, monkeypatch)


@pytest.fixture
def place(newcomer, empty_store) -> Place:
    """Give a root and a store that holds nothing."""
    shutil.copytree(empty_store, os.fsdecode(newcomer.store))
    return newcomer


@pytest.fixture
def pinned(top, pinned_once, monkeypatch) -> Place:
    """Give a root whose first unit is pinned as the floor `fast`."""
    builders.copy_tree(pinned_once, top)
    os.chmod(top, 0o755)
    return place_at(top, monkeypatch)


@pytest.fixture(scope="session")
def real_tree(tmp_path_factory):
    """Give the root of a real tree by its label; it is shared, so read it only."""
    return lambda label: unpack_once(label, tmp_path_factory.getbasetemp())
