import os
import tempfile
from contextlib import contextmanager

import pytest

_NOBODY = 65534


@pytest.fixture
def top(tmp_path):
    """Give an empty directory as bytes, the way cache paths are handled."""
    return os.fsencode(tmp_path)


@pytest.fixture
def open_top():
    """Give an empty directory that every user can reach and write."""
    with tempfile.TemporaryDirectory(prefix="cachekeeper-test-") as path:
        os.chmod(path, 0o777)
        yield os.fsencode(path)


@pytest.fixture
def as_nobody():
    """Give a block in which this process has no rights of root: its effective user is nobody."""

    @contextmanager
    def block():
        user, group, groups = os.geteuid(), os.getegid(), os.getgroups()
        if user == 0:
            os.setgroups([])
            os.setegid(_NOBODY)
            os.seteuid(_NOBODY)
        try:
            yield
        finally:
            if user == 0:
                os.seteuid(user)
                os.setegid(group)
                os.setgroups(groups)

    return block
