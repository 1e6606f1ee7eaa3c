"""Shared by all suites: home is forbidden, and hypothesis has one profile."""

import os

import pytest
from hypothesis import settings

# Where a tool would keep or look for something of the user's.
HOMES = (
    "HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "VLLM_CACHE_ROOT",
    "CACHEKEEPER_STORE",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
)

settings.register_profile("ci", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ci")


@pytest.fixture(scope="session", autouse=True)
def forbidden_home(tmp_path_factory):
    """Put every home below a regular file: whatever is made or read there raises, even for root."""
    file = tmp_path_factory.mktemp("home") / "forbidden"
    file.write_text("no home here\n")
    with pytest.MonkeyPatch.context() as patch:
        for name in HOMES:
            patch.setenv(name, str(file / name.lower()))
        yield file
