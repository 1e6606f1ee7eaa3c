import os
import pprint
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachekeeper.core.errors import FormatError
from cachekeeper.layouts.handles import Handle, parse_index, read_index
from cachekeeper.layouts.listing import SMALL_FILE_BYTES, read_small

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=90)
_PATH_TEXT = _TEXT.filter(bool)
_SHAPES = st.none() | st.integers(0, 10**6) | st.tuples(st.integers(0, 9), st.integers(0, 10**6))
_KEYS = st.tuples(
    _SHAPES, st.integers(0, 999), st.sampled_from(["inductor", "inductor_standalone"])
)
_PAIRS = st.tuples(_TEXT, _PATH_TEXT)
_VALUES = _PAIRS | st.fixed_dictionaries({"graph_handle": _PAIRS, "cache_key": _TEXT})


def test_the_shape_of_vllm_0_17_to_0_32():
    text = """{   ((1, 8192), 4, 'inductor_standalone'): {   'cache_key': 'a7x',
        'graph_handle': (   'artifact_4',
                            '/r/torch_compile_cache/0c/rank_0_0/backbone/artifact_4')}}"""
    path = b"/r/torch_compile_cache/0c/rank_0_0/backbone/artifact_4"
    index = parse_index(text.encode())
    assert index.handles == (Handle(1, 8192, 4, "artifact_4", path, "a7x"),)
    assert index.problem is None


def test_the_plain_pair_of_vllm_0_10():
    index = parse_index(b"{(None, 0, 'inductor_standalone'): ('artifact_0', '/r/artifact_0')}")
    assert index.handles == (Handle(None, None, 0, "artifact_0", b"/r/artifact_0", ""),)


def test_the_hash_and_source_of_vllm_0_8():
    index = parse_index(b"{(8, 2, 'inductor'): ('fhash', '/r/inductor_cache/ab/cab.py')}")
    assert index.handles == (Handle(8, 8, 2, "fhash", b"/r/inductor_cache/ab/cab.py", ""),)


def test_a_dict_without_a_cache_key():
    index = parse_index(b"{((1, 2), 0, 'x'): {'graph_handle': ('n', '/p')}}")
    assert index.handles == (Handle(1, 2, 0, "n", b"/p", ""),)


def test_an_empty_dict_has_no_handles_and_no_problem():
    assert parse_index(b" {} \n") == parse_index(b"{}")
    assert parse_index(b"{}").problem is None


@settings(deadline=None)
@given(st.dictionaries(_KEYS, _VALUES, max_size=4), st.booleans())
def test_what_vllm_prints_is_read_back(items, is_plain):
    text = repr(items) if is_plain else pprint.pformat(items, indent=4)
    index = parse_index(text.encode())
    assert index.problem is None
    expected = set()
    for (_, number, _), value in items.items():
        name, path = value["graph_handle"] if isinstance(value, dict) else value
        expected.add((number, name, path.encode()))
    assert {(each.graph_index, each.name, each.path) for each in index.handles} == expected


def test_bytes_of_a_path_that_is_no_text_come_back():
    index = parse_index(rb"{((1, 2), 0, 'x'): ('n', '/p\udcff')}")
    assert index.handles[0].path == b"/p\xff"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"{'a': ('n', '/p')}",
        b"{(1, 2): ('n', '/p')}",
        b"{((1, 2), 'zero', 'x'): ('n', '/p')}",
        b"{('1', 0, 'x'): ('n', '/p')}",
        b"{((1, 2, 3), 0, 'x'): ('n', '/p')}",
        b"{((1, 2), 0, 'x'): None}",
        b"{((1, 2), 0, 'x'): ('n',)}",
        b"{((1, 2), 0, 'x'): ('n', 3)}",
        b"{((1, 2), 0, 'x'): ('n', '')}",
        b"{((1, 2), 0, 'x'): {'graph_handle': None}}",
        b"{((1, 2), 0, 'x'): {'graph_handle': ('n', '/p'), 'cache_key': 3}}",
        rb"{((1, 2), 0, 'x'): ('n', '/p\x00')}",
        rb"{((1, 2), 0, 'x'): ('n', '/p\ud800')}",
        rb"{((1, 2), 0, 'x'): ('n', '/p\x')}",
        rb"{((1, 2), 0, 'x'): ('n', '/p\d')}",
        b"{((1, 2), 0, 'x'): ('n', '/p\xff')}",
        b"{((1, 2), 0, 'x'): ('n', '/p')} # comment",
        b"{((1, 2), 0, 'x'): ('n', __import__('os'))}",
        b"{[]: 1}",
        b"{{}}",
        b"{0123: 1}",
        b"{((1, 99999999999999999999999), 0, 'x'): ('n', '/p')}",
        b"\0",
        b"NoneNone",
    ],
)
def test_anything_else_is_an_unreadable_index(content):
    index = parse_index(content)
    assert index.handles == ()
    assert index.problem.startswith("unreadable index: ")


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b"(" * 5 + b"[" * 5,
        b"-" * 1_000_000 + b"1",
        b"{" * 4_000_000,
        b"0," * 4_000_000,
        b"''" * 4_000_000,
        b"1+" * 4_000_000,
        b"not " * 2_000_000,
        b"'" + b"\\\\" * 4_000_000 + b"'",
        b"'" + b"a" * 8_000_000 + b"'",
        b"9" * 8_000_000,
        b" " * 8_000_000,
        b"\n" * 4_000_000 + b"\xc3\xa9",
    ],
    ids=lambda content: f"{content[:4]!r}-{len(content)}",
)
def test_hostile_text_costs_little(content):
    tracemalloc.start()
    start = time.thread_time()
    index = parse_index(content)
    elapsed_s = time.thread_time() - start
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert index.problem
    assert elapsed_s < 20  # traced for memory, which costs most of it
    assert peak_bytes < 100_000_000


@settings(deadline=None)
@given(
    st.binary(max_size=200)
    | st.text(alphabet="{}()[],:'\"\\ 0123N-one", max_size=80).map(str.encode)
)
def test_any_bytes_are_an_index_or_a_problem(content):
    index = parse_index(content)
    assert index.problem is None or index.handles == ()


def test_six_thousand_handles_fit():
    items = {((n, n), n, "inductor_standalone"): ("a" * 50, "/" + "p" * 200) for n in range(6000)}
    assert len(parse_index(pprint.pformat(items).encode()).handles) == 6000


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path):
    big = tmp_path / "big"
    big.write_bytes(b" " * (SMALL_FILE_BYTES + 1))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(big)
    for name in ("big", "pipe", "link", "missing"):
        index = read_index(os.fsencode(tmp_path / name), read_small)
        assert index.problem.startswith("unreadable index: ")


def test_a_small_file_is_read_and_a_larger_one_named(tmp_path):
    path = os.fsencode(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"1" * SMALL_FILE_BYTES)
    assert len(read_small(path)) == SMALL_FILE_BYTES
    (tmp_path / "x").write_bytes(b"1" * (SMALL_FILE_BYTES + 1))
    with pytest.raises(FormatError, match="larger than"):
        read_small(path)
