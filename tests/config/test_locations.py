import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import unhurried

from cachekeeper.config.locations import (
    home_directory,
    root_locations,
    store_location,
    vllm_cache_root,
)
from cachekeeper.core.errors import UsageError

HOME = {"HOME": "/home/me"}
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
VALUES = TEXT | st.sampled_from(["~", "~/x", "~other", "/a", "/a/../b", "./x", "x//y"])
ENVIRONMENTS = st.dictionaries(
    st.sampled_from(
        ["HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "CACHEKEEPER_STORE"]
    ),
    VALUES,
)


@pytest.mark.parametrize(
    ("option", "environment", "expected"),
    [
        ("/s", {**HOME, "CACHEKEEPER_STORE": "/e"}, b"/s"),
        (None, {**HOME, "CACHEKEEPER_STORE": "/e", "XDG_DATA_HOME": "/x"}, b"/e"),
        ("", {**HOME, "CACHEKEEPER_STORE": "/e"}, b"/e"),
        (None, {**HOME, "XDG_DATA_HOME": "/x", "CACHEKEEPER_STORE": ""}, b"/x/cachekeeper"),
        (None, {"XDG_DATA_HOME": "/x"}, b"/x/cachekeeper"),
        (None, HOME, b"/home/me/.local/share/cachekeeper"),
        (None, {**HOME, "XDG_DATA_HOME": ""}, b"/home/me/.local/share/cachekeeper"),
        ("~/s", HOME, b"/home/me/s"),
        ("~", HOME, b"/home/me"),
        ("~other/s", HOME, None),
        ("/a/../b//c/", HOME, b"/b/c"),
        ("/caf\udce9", HOME, b"/caf\xe9"),
    ],
)
def test_where_the_store_is(option, environment, expected):
    """The option, else CACHEKEEPER_STORE, else XDG_DATA_HOME, else below HOME."""
    expected = os.fsencode(os.path.abspath(option)) if expected is None else expected
    assert expected == store_location(option, environment)


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_any_place_for_the_store_it_is_told(environment):
    """No home that can be relied on: the hint names what to set."""
    with pytest.raises(UsageError, match="HOME is not set") as caught:
        store_location(None, environment)
    assert "CACHEKEEPER_STORE" in caught.value.hint


@pytest.mark.parametrize(
    ("options", "environment", "expected"),
    [
        (("/b", "/a"), {"VLLM_CACHE_ROOT": "/v"}, (b"/b", b"/a")),
        (("/a", "/b/../a", "/a/"), {}, (b"/a",)),
        (("~/x", "/home/me/x"), HOME, (b"/home/me/x",)),
        ((), {**HOME, "VLLM_CACHE_ROOT": "/v"}, (b"/v",)),
        ((), {**HOME, "XDG_CACHE_HOME": "/x"}, (b"/x/vllm",)),
        ((), HOME, (b"/home/me/.cache/vllm",)),
    ],
)
def test_where_the_roots_are(options, environment, expected):
    """The options, in their order and each once, else the one root that vLLM would use."""
    assert expected == root_locations(options, environment)


def test_without_any_root_it_is_told():
    """No option, no variable, no home: the hint names what to set."""
    with pytest.raises(UsageError, match="no cache root is known") as caught:
        root_locations((), {})
    assert "VLLM_CACHE_ROOT" in caught.value.hint


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"VLLM_CACHE_ROOT": "/v", "XDG_CACHE_HOME": "/x", **HOME}, b"/v"),
        ({"VLLM_CACHE_ROOT": "", "XDG_CACHE_HOME": "/x", **HOME}, b"/x/vllm"),
        ({"VLLM_CACHE_ROOT": "~/v", **HOME}, b"/home/me/v"),
        ({"XDG_CACHE_HOME": "~/c", **HOME}, b"/home/me/c/vllm"),
        ({"XDG_CACHE_HOME": "", **HOME}, b"/home/me/.cache/vllm"),
        ({"XDG_CACHE_HOME": "/x"}, b"/x/vllm"),
        (HOME, b"/home/me/.cache/vllm"),
        ({"HOME": "relative"}, None),
        ({}, None),
    ],
)
def test_vllms_own_rule(environment, expected):
    """VLLM_CACHE_ROOT, else XDG_CACHE_HOME/vllm, else ~/.cache/vllm: what vllm/envs.py does."""
    assert expected == vllm_cache_root(environment)


def test_a_relative_place_starts_where_we_stand(tmp_path, monkeypatch):
    """A relative option is meant from the working directory; links on the way are kept."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    expected = os.fsencode(tmp_path / "link" / "store")
    assert expected == store_location("link/store", {})
    assert (expected,) == root_locations(("./link/store",), {})


@unhurried
@given(ENVIRONMENTS)
def test_every_place_is_absolute_and_normal(environment):
    """Whatever the environment holds, a place that is found is absolute and has no detours."""
    found = []
    for find in (lambda: store_location(None, environment), lambda: vllm_cache_root(environment)):
        try:
            found.append(find())
        except UsageError:
            assert home_directory(environment) is None
    for path in filter(None, found):
        assert path.startswith(b"/")
        assert os.path.normpath(path) == path


@unhurried
@given(ENVIRONMENTS, st.text(max_size=4), st.text(max_size=4))
def test_other_variables_move_nothing(environment, name, value):
    """Only the named variables and HOME decide."""
    assert vllm_cache_root(environment) == vllm_cache_root({f"OTHER_{name}": value, **environment})


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (HOME, "/home/me"),
        ({"HOME": "/"}, "/"),
        ({"HOME": ""}, None),
        ({"HOME": "x"}, None),
        ({}, None),
    ],
)
def test_a_home_is_absolute_or_none(environment, expected):
    """A relative HOME would make places depend on where a command is run."""
    assert expected == home_directory(environment)
