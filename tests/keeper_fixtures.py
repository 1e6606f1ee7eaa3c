"""A keeper over a root of two units and an empty store, for the suites below the command line."""

import os
import shutil
import tempfile

import builders
import pytest

from cachekeeper.keeper.keeper import Keeper, Settings
from cachekeeper.keeper.roots import open_root
from cachekeeper.store.store import create_store

_MEMORY = "/dev/shm"  # a real file system where syncing costs nothing


@pytest.fixture
def top():
    """Give an empty directory, in memory where there is such a file system."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made = tempfile.mkdtemp(prefix="cachekeeper-suite-", dir=where)
    yield os.fsencode(os.path.realpath(made))
    shutil.rmtree(made)


@pytest.fixture
def root(top):
    """Give a root of two units."""
    builders.default_root(top + b"/vllm")
    return open_root(top + b"/vllm")


@pytest.fixture
def store(top):
    """Give an empty store."""
    return create_store(top + b"/store")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """Make a store with a migrated catalogue once: the migration takes most of a second."""
    made = os.fsencode(tmp_path_factory.mktemp("made") / "store")
    with Keeper(Settings(made, ())) as keeper:
        keeper.make_store()
        keeper.catalogue.events()
    return made


@pytest.fixture
def keeper(top, root, empty_store):
    """Give the keeper of that root and an empty store, which waits for nobody."""
    shutil.copytree(empty_store, top + b"/store")
    with Keeper(Settings(top + b"/store", (root.real,), lock_timeout_s=0)) as made:
        yield made
