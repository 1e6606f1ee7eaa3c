"""Remembered digests and problems survive their way through the catalogue, or are no memory."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachekeeper.core.problem import Problem
from cachekeeper.fs.reading import FileState
from cachekeeper.keeper.memory import Health, decode_health, decode_memory, encode_memory

paths = st.binary(max_size=12).filter(lambda path: b"\0" not in path)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
numbers = st.integers(0, 2**63)
times = st.integers(-(10**18), 10**19)
states = st.builds(FileState, numbers, times, times, numbers, numbers)
memories = st.dictionaries(paths, st.tuples(states, digests), max_size=5)
problems = st.builds(
    Problem,
    st.sampled_from(["empty-model", "foreign-path"]),
    paths,
    st.text(max_size=20).filter(lambda text: text.isprintable()),
    st.sampled_from(["damaged", "incomplete", "warning", "notice"]),
)
healths = st.builds(
    Health, digests, digests, st.lists(problems).map(tuple), st.lists(problems).map(tuple)
)


@given(memories, st.none() | healths)
def test_what_was_remembered_is_remembered(memory, health):
    """Any paths, states and problems come back as they were."""
    data = encode_memory(memory, health)
    assert decode_memory(data) == memory
    assert decode_health(data) == health


@given(st.binary(max_size=200))
def test_garbage_is_no_memory(data):
    """Whatever stands in the catalogue, nothing fails."""
    assert decode_memory(data) == {}
    assert decode_health(data) is None


@pytest.mark.parametrize(
    "text",
    [
        "cachekeeper-memory 1\n1 2 3 4 5 " + "a" * 64 + " path",
        "cachekeeper-memory 2\n1 2 3",
        "cachekeeper-memory 2\nhealth only-one",
        "cachekeeper-memory 2\nhealth a b\ninside worse code % %",
        "cachekeeper-memory 2\nhealth a b\ninside damaged code",
        "cachekeeper-memory 2\n1 2 3 4 5 " + "a" * 64 + " %zz",
        "cachekeeper-memory 2\n\xe9",
        "",
    ],
)
def test_another_form_is_no_memory(text):
    """Older formats, cut lines and unknown words are no memory."""
    data = zlib.compress(text.encode("utf-8"))
    assert decode_memory(data) == {}
    assert decode_health(data) is None
