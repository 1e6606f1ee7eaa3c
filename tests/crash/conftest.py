import os
import shutil
import tempfile

import pytest
from builders import (
    Clock,
    copy_tree,
    default_root,
    families_of,
    give_tree,
    overwrite_unit,
    remove_tree,
    settle_directories,
    write,
)
from scenario import Scenario

from cachekeeper.keeper.keeper import Keeper, Settings
from cachekeeper.probe.live_users import LiveUsers

NOBODY = 65534
_MEMORY = "/dev/shm"  # a real file system with exchange, where syncing costs nothing


@pytest.fixture
def place(tmp_path):
    """Give an empty directory, in memory where there is such a file system."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else str(tmp_path)
    made = tempfile.mkdtemp(prefix="cachekeeper-test-", dir=where)
    yield os.fsencode(os.path.realpath(made))
    shutil.rmtree(made)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """Make a store with a migrated catalogue once: the migration takes most of a second."""
    top = os.fsencode(tmp_path_factory.mktemp("empty"))
    with Keeper(Settings(top + b"/store", (top + b"/root",))) as keeper:
        keeper.make_store()
        assert keeper.catalogue.pins() == ()
    return top + b"/store"


@pytest.fixture
def nobody_looks(monkeypatch):
    """Leave out the look at all processes of the machine, which no fault here is about.

    It would take most of the time of each of thousands of restores; test_together.py has the real
    one.
    """
    monkeypatch.setattr(
        "cachekeeper.ops.restore.find_live_users", lambda _search: LiveUsers((), ())
    )


@pytest.fixture
def pinned(place, empty_store, nobody_looks):
    """Give a root of two units and companions with a floor `fast` on the first, nothing changed."""
    return _pinned(place, empty_store)


@pytest.fixture
def overwritten(pinned):
    """Give a root in which both families of the pinned unit were overwritten; saved."""
    return _overwrite(pinned)


@pytest.fixture
def stored(pinned):
    """Give the same where all but the overwritten families is in a snapshot already."""
    pinned.snapshot()
    return _overwrite(pinned)


@pytest.fixture
def nobodys(place, empty_store, nobody_looks):
    """Give the same as `overwritten`, all of it owned by a user who is not root."""
    if os.geteuid() != 0:
        pytest.skip("only root can make files of another user")
    os.chown(place, NOBODY, NOBODY)
    made = _pinned(place, empty_store, NOBODY)
    _overwrite(made)
    give_tree(made.root, NOBODY)
    give_tree(made.store, NOBODY)
    return _saved(made)


@pytest.fixture
def without_partner(pinned):
    """Give a root in which one family of the pinned unit is gone and the other overwritten."""
    pinned.clock = Clock(1_792_000_000_000_000_000)
    overwrite_unit(pinned.root, pinned.first, "v2", pinned.clock)
    remove_tree(pinned.root + b"/" + pinned.first.partner_path)
    return _saved(pinned)


@pytest.fixture
def without_anything(pinned):
    """Give a root that was removed whole."""
    remove_tree(pinned.root)
    return _saved(pinned)


@pytest.fixture
def snapshotted(pinned):
    """Give a root in which a unit and both companions differ from a snapshot, its `reference`."""
    pinned.reference = f"s:{pinned.snapshot()}"
    pinned.clock = Clock(1_792_000_000_000_000_000)
    overwrite_unit(pinned.root, pinned.second, "v2", pinned.clock)
    for name in pinned.companions:
        path = pinned.root + b"/" + name
        inside = path + b"/llama.json" if os.path.isdir(path) else path
        write(inside, b"other", pinned.clock.tick())
    return _saved(pinned, (*pinned.second.paths, *pinned.companions))


def _pinned(place, empty_store, uid=None):
    made = Scenario(place)
    made.first, made.second = default_root(made.root, lean=True)
    if uid is not None:
        give_tree(made.root, uid)
    copy_tree(empty_store, made.store)
    made.pin(made.first.aot)
    made.pinned_families = families_of(made.root)
    made.companions = [path for path in made.pinned_families if b"/" not in path]
    return made


def _overwrite(made):
    made.clock = Clock(1_792_000_000_000_000_000)
    overwrite_unit(made.root, made.first, "v2", made.clock)
    settle_directories(made.root, made.clock)
    return _saved(made)


def _saved(made, paths=None):
    now = families_of(made.root)
    paths = paths or made.first.paths
    made.old = {path: now.get(path, {}) for path in paths}
    made.new = {path: made.pinned_families[path] for path in paths}
    made.others = made.everything_else()
    made.save()
    return made
