import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachekeeper.layouts.names import Rank, candidate_key, classify, parse_rank

_PIECES = st.sampled_from([b"tmp.", b".tmp", b".lock", b".nfs", b"a", b"inductor_cache", b"\xff"])
_NAMES = st.lists(_PIECES, min_size=1, max_size=4).map(b"".join)
_PATHS = st.lists(_NAMES, min_size=1, max_size=5).map(b"/".join)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"rank_0_0/model", "content"),
        (b"rank_0_0/model.4711.tmp", "temporary"),
        (b"inductor_cache/ab/.77.140.tmp", "temporary"),
        (b"inductor_cache/xx/foo.tmp/bar", "content"),
        (b"inductor_cache/triton/0/ABC/tmp.pid_9_1b2c/k.cubin", "temporary"),
        (b"inductor_cache/triton/0/tmp.1b2c/k.cubin", "temporary"),
        (b"tmp.x/locks/a.lock", "temporary"),
        (b"tmp.x", "temporary"),
        (b"xtmp.y/a", "content"),
        (b"a/.nfs0001", "temporary"),
        (b".nfs0001", "temporary"),
        (b".nfs0001/a", "content"),
        (b"inductor_cache/locks/c12.lock", "lock"),
        (b"x.lock/a", "content"),
        (b"x.lock", "lock"),
        (b"lock", "content"),
        (b"", "content"),
        (b"inductor_cache/ab/0f.best_config", "mutable"),
        (b"other/ab/0f.best_config", "content"),
        (b"inductor_cache/ab/0f.best_config.tmp", "temporary"),
    ],
)
def test_classes_of_an_aot_family(path, expected):
    assert classify(path, "aot") == expected


@pytest.mark.parametrize("kind", ["compile", "other"])
def test_tuning_records_elsewhere_are_content(kind):
    path = b"rank_0_0/inductor_cache/ab/0f.best_config"
    assert classify(path, kind) == "content"
    assert classify(b"inductor_cache/ab/0f.best_config", kind) == "content"


@settings(deadline=None)
@given(_PATHS)
def test_classes_follow_the_written_rule(path):
    """The rule of docs/design/store-format.md, written the slow way."""
    *above, name = path.split(b"/")
    is_temporary = (
        any(part.startswith(b"tmp.") for part in (*above, name))
        or (name.endswith(b".tmp"))
        or (name.startswith(b".nfs") and not name.endswith(b".lock"))
    )
    is_lock = name.endswith(b".lock") and not is_temporary
    expected = "temporary" if is_temporary else "lock" if is_lock else "content"
    assert classify(path, "compile") == expected


def test_fifty_thousand_names_cost_little():
    path = b"inductor_cache/triton/0/" + b"A" * 52 + b"/triton_poi_fused_add_cat_index.cubin"
    start = time.thread_time()
    for _ in range(50_000):
        classify(path, "aot")
    assert time.thread_time() - start < 1


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"inductor_cache/fxgraph/jj/fjj/bjh", b"inductor_cache/fxgraph/jj/fjj"),
        (b"inductor_cache/fxgraph/jj/fjj/deep/er", b"inductor_cache/fxgraph/jj/fjj"),
        (b"inductor_cache/aotautograd/a7x/5zd", b"inductor_cache/aotautograd/a7x"),
        (b"inductor_cache/aotautograd/a7x/5zd/e/f", b"inductor_cache/aotautograd/a7x"),
        (b"inductor_cache/triton/0/2GQ/k.cubin", b"inductor_cache/triton/0/2GQ"),
        (b"inductor_cache/fxgraph/jj/fjj", None),
        (b"inductor_cache/aotautograd/a7x", None),
        (b"inductor_cache/triton/0/2GQ", None),
        (b"inductor_cache/cb/cxy.py/z/a", None),
        (b"rank_0_0/fxgraph/jj/fjj/bjh", None),
        (b"", None),
    ],
)
def test_candidate_keys(path, expected):
    assert candidate_key(path) == expected


@settings(deadline=None)
@given(_PATHS)
def test_a_candidate_key_is_a_directory_above_the_path(path):
    for prefix in (b"", b"inductor_cache/fxgraph/", b"inductor_cache/triton/"):
        key = candidate_key(prefix + path)
        assert key is None or (prefix + path).startswith(key + b"/")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank_0_0", Rank(0, 0)),
        ("rank_15_3", Rank(15, 3)),
        ("rank_0_0_dev1", Rank(0, 0, 1)),
        ("rank_0", None),
        ("rank_00_0", None),
        ("rank_0_0_dev", None),
        ("rank_0_0_gpu1", None),
        ("rank_0_0\n", None),
        ("rank_-1_0", None),
        ("rank_٣_0", None),
        ("rank_" + "9" * 5000 + "_0", None),
        ("", None),
    ],
)
def test_rank_names(name, expected):
    assert parse_rank(name) == expected


@settings(deadline=None)
@given(st.integers(0, 10**8), st.integers(0, 10**8), st.none() | st.integers(0, 10**8))
def test_a_rank_is_read_from_its_name(rank, data_parallel, device):
    value = Rank(rank, data_parallel, device)
    assert parse_rank(value.name) == value


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_rank_or_nothing(text):
    rank = parse_rank(text)
    assert rank is None or rank.name == text
