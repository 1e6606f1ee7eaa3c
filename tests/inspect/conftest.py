from collections.abc import Callable

import pytest
from real_trees import unpack_once


@pytest.fixture(scope="session")
def real_tree(tmp_path_factory) -> Callable[[str], bytes]:
    """Give the root of a real tree by its label; it is shared, so read it only."""
    return lambda label: unpack_once(label, tmp_path_factory.getbasetemp())
