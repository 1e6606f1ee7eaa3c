import os

import pytest

from cachekeeper.store.store import create_store


@pytest.fixture
def top(tmp_path):
    return os.fsencode(os.path.realpath(tmp_path))


@pytest.fixture
def store(top):
    return create_store(top + b"/store")
