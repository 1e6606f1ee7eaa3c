"""The keeper: places that may not be there yet, and what root and store are to each other."""

import os

import builders
import pytest

from cachekeeper.core.errors import IoError, RefusedError, UsageError
from cachekeeper.fs import locks
from cachekeeper.keeper.keeper import Keeper, Settings
from cachekeeper.keeper.roots import absent_root, check_apart, open_root
from cachekeeper.keeper.survey import outline


def keeper_at(store, *roots, **settings):
    return Keeper(Settings(store, roots, **settings))


def test_no_place_for_a_store_is_said_where_one_is_needed(root):
    """Without a place there is no store, and whatever needs one says so."""
    with keeper_at(None, root.real) as keeper:
        assert keeper.has_store is False
        for need in (lambda: keeper.store, lambda: keeper.is_new, keeper.make_store):
            with pytest.raises(UsageError, match="no place for the store is known"):
                need()


def test_a_new_store_is_told(top):
    """A known place where nothing stands is new; it is not, once it was made."""
    with keeper_at(top + b"/store") as keeper:
        assert (keeper.is_new, keeper.has_store) == (True, False)
        keeper.make_store()
        assert (keeper.is_new, keeper.has_store) == (False, True)
        assert keeper.make_store() is keeper.store


@pytest.fixture
def hidden(top, monkeypatch):
    """Give the place of a store that may not be seen, as in another user's home."""
    path = top + b"/home/store"

    def store_exists(_path):
        raise IoError("cannot look into it")

    monkeypatch.setattr("cachekeeper.keeper.keeper.store_exists", store_exists)
    return path


def test_a_named_store_that_cannot_be_seen_is_an_error(hidden):
    """What the user named must be seen."""
    with keeper_at(hidden) as keeper, pytest.raises(IoError):
        _ = keeper.has_store


def test_a_default_store_that_cannot_be_seen_is_none(hidden):
    """A default place in another's home holds nothing of this user's; one that stands there may."""
    with keeper_at(hidden, is_default_store=True) as keeper:
        assert keeper.has_store is False
        os.makedirs(hidden)
        with pytest.raises(IoError):
            _ = keeper.has_store


def test_roots_must_exist_unless_they_are_known(top, root):
    """A root that is gone may be missing where its content is stored."""
    gone = absent_root(top + b"/gone")
    with keeper_at(None, root.real, gone.real) as keeper:
        with pytest.raises(UsageError, match="there is no cache root"):
            keeper.roots()
        assert keeper.roots({gone.identity}) == (root, gone)
        with keeper.reading(gone):
            assert outline(gone).places == ()


def test_roots_are_found_by_identity(top, root):
    """The real path names a root, however it was given."""
    os.symlink(root.real, top + b"/link")
    with keeper_at(None, top + b"/link") as keeper:
        assert keeper.root_named(root.identity) == open_root(top + b"/link")
        assert keeper.root_named("/elsewhere") is None


@pytest.mark.parametrize(
    ("store", "fact"),
    [
        (b"/vllm/store", "inside the cache root"),
        (b"/vllm", "inside the cache root"),
        (b"", "inside the store"),
        (b"/vllm/../vllm/x/y", "inside the cache root"),
    ],
)
def test_root_and_store_lie_apart(top, root, store, fact):
    """One inside the other is refused on real paths."""
    with pytest.raises(RefusedError, match=fact):
        check_apart(root, top + store)


@pytest.mark.parametrize("store", [b"/vllm-store", b"/store", b"/vll"])
def test_neighbours_are_apart(top, root, store):
    """A name that only begins alike is another directory."""
    check_apart(root, top + store)


def test_a_root_that_cannot_be_locked_is_said(keeper, root, monkeypatch):
    """On a file system without locks a restore goes on and says so."""

    def flock(_descriptor, _operation):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    with keeper.changing(root):
        pass
    assert keeper.notices == [f"{os.fsdecode(root.real)} cannot be locked on this file system"]


def test_a_root_as_it_was_given(top):
    """The path as given is kept for people, the real one for records."""
    builders.write(top + b"/real/x", b"", 1)
    os.symlink(b"real", top + b"/link")
    root = open_root(top + b"/link")
    assert (root.given, root.real) == (top + b"/link", top + b"/real")
    assert root.identity == os.fsdecode(top + b"/real")
