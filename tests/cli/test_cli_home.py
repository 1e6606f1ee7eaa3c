"""The suite cannot touch anything of the user's."""

import os

import pytest

from cachekeeper.config.locations import root_locations, store_location

DEFAULTS = ("VLLM_CACHE_ROOT", "CACHEKEEPER_STORE")
XDG = ("XDG_CACHE_HOME", "XDG_DATA_HOME")


@pytest.mark.parametrize("unset", [(), DEFAULTS, (*DEFAULTS, *XDG)])
def test_no_default_place_can_be_made(monkeypatch, unset):
    """Whichever rule finds the default root and store, neither can be made."""
    for name in unset:
        monkeypatch.delenv(name)
    for path in (store_location(None, os.environ), *root_locations((), os.environ)):
        with pytest.raises(NotADirectoryError):
            os.makedirs(path)


def test_a_command_on_the_default_root_finds_none(ck):
    """A test that forgets its root sees no cache of the user's."""
    assert ck("scan").code == 2


def test_a_command_on_the_default_store_fails(ck, place, monkeypatch):
    """A test that forgets its store writes nothing."""
    monkeypatch.setenv("CACHEKEEPER_STORE", os.environ["HOME"])
    found = ck("snapshot")
    assert found.code == 5
    assert "cannot make a store" in found.error
