import glob
import os
import pickle
import pickletools
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachekeeper.inspect.pickle_end import pickle_end

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats()
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.binary(max_size=20).map(bytearray)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=9), inner, max_size=4)
        | st.frozensets(st.integers() | st.text(max_size=9), max_size=4)
    ),
    max_leaves=12,
)
_PROTOCOLS = st.integers(2, pickle.HIGHEST_PROTOCOL)


@pytest.fixture(scope="module")
def end_of(tmp_path_factory):
    """Give the end of the pickle in some bytes."""
    path = tmp_path_factory.mktemp("pickle") / "model"

    def end(content):
        path.write_bytes(content)
        with path.open("rb") as file:
            return pickle_end(file)

    return end


@pytest.fixture(scope="module")
def model(real_tree):
    """Give the bytes of one real model."""
    (path,) = glob.glob(os.fsdecode(real_tree("A")) + "/torch_compile_cache/*/*/rank_0_0/model")
    with open(path, "rb") as file:
        return file.read()


@pytest.mark.parametrize("label", ["A", "A3", "A4", "Ap", "LT", "MT3"])
def test_real_models_are_whole(real_tree, label):
    paths = glob.glob(os.fsdecode(real_tree(label)) + "/torch_compile_cache/*/*/rank_*/model")
    assert paths
    for path in paths:
        with open(path, "rb") as file:
            assert pickle_end(file) == "whole"


def test_real_pickles_beside_models_are_whole(real_tree):
    top = os.fsdecode(real_tree("A")) + "/torch_compile_cache/torch_aot_compile/*/inductor_cache"
    paths = glob.glob(f"{top}/fxgraph/*/*/*") + glob.glob(f"{top}/aotautograd/*/*")
    assert len(paths) == 6
    for path in paths:
        with open(path, "rb") as file:
            assert pickle_end(file) == "whole"


@pytest.mark.parametrize("kept", [1, 2, 3, 100, "half", -100, -1])
def test_each_cut_of_a_real_model_is_found(end_of, model, kept):
    size = len(model) // 2 if kept == "half" else kept
    assert end_of(model[:size]) == "truncated"


def test_an_empty_file(end_of):
    assert end_of(b"") == "empty"


@pytest.mark.parametrize("extra", [b"\0", b".", b"\n", b"x" * 100_000])
def test_bytes_behind_the_stop_of_a_real_model_are_found(end_of, model, extra):
    assert end_of(model + extra) == "trailing"


@pytest.mark.parametrize(
    "content",
    [b"x", b"\x7fELF", b"(lp0\n.", b"PK\x03\x04", bytes(100), b"\x80\x06.", b"\x80\xff\xff"],
)
def test_other_formats_are_no_pickle(end_of, content):
    assert end_of(content) == "not-a-pickle"


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x00",  # zeros where an opcode should be
        b"\x80\x04\xff.",
        b"\x80\x02\x8b\xff\xff\xff\xff.",  # LONG4 with a negative length
        b"\x80\x02T\x00\x00\x00\x80.",  # BINSTRING with a negative length
    ],
)
def test_a_byte_that_is_no_opcode_is_broken(end_of, content):
    assert end_of(content) == "broken"


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8e" + b"\xff" * 8,  # BINBYTES8 of 2**64 - 1 bytes
        b"\x80\x04\x8d" + b"\xff" * 7 + b"\x7f" + b"x" * 100,
        b"\x80\x02X\xff\xff\xff\xff.",
        b"\x80\x04\x8e\xff\xff",  # cut inside the length
        b"\x80\x04\x95\x00",  # cut inside a frame's length
        b"\x80\x02cmodule",
        b"\x80\x02cmodule\nname",
        b"\x80\x02I" + b"1" * 200_000,
        b"\x80\x02" + b"N" * 70_000,
    ],
)
def test_lengths_beyond_the_file_are_truncated_and_cost_nothing(end_of, content):
    tracemalloc.start()
    end = end_of(content)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert end == "truncated"
    assert peak_bytes < 1_000_000


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cmodule\nname\n.",
        b"\x80\x02F1.5\n.",
        b"\x80\x02I" + b"1" * 200_000 + b"\n.",
        b"\x80\x02" + b"N" * 70_000 + b".",
        b"\x80\x02" + b"X\xff\xff\x00\x00" + b"." * 65535 + b".",
    ],
)
def test_arguments_longer_than_a_block_are_stepped_over(end_of, content):
    assert end_of(content) == "whole"


def test_a_large_model_takes_milliseconds_and_one_block(tmp_path):
    path = tmp_path / "model"
    size_bytes = 1_400_000_000
    with path.open("wb") as file:
        file.write(b"\x80\x04\x8e" + size_bytes.to_bytes(8, "little"))
        file.seek(size_bytes, os.SEEK_CUR)  # a hole: the file takes no space
        file.write(b"\x94.")
    tracemalloc.start()
    start = time.thread_time()
    with path.open("rb") as file:
        assert pickle_end(file) == "whole"
    assert time.thread_time() - start < 0.5
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@settings(deadline=None)
@given(_VALUES, _PROTOCOLS, st.binary(min_size=1, max_size=9), st.data())
def test_pickles_are_whole_cuts_truncated_and_more_is_trailing(
    end_of, value, protocol, extra, data
):
    content = pickle.dumps(value, protocol)
    assert end_of(content) == "whole"
    assert end_of(content + extra) == "trailing"
    kept = data.draw(st.integers(1, len(content) - 1))
    assert end_of(content[:kept]) == "truncated"


@settings(deadline=None)
@given(_VALUES, _PROTOCOLS, st.data())
def test_what_the_standard_walk_accepts_ends_at_the_same_byte(end_of, value, protocol, data):
    """Genops reads arguments and so refuses more; where it reaches STOP, so does this walk."""
    content = bytearray(pickle.dumps(value, protocol))
    position = data.draw(st.integers(2, len(content) - 1))
    content[position] = data.draw(st.integers(0, 255))
    try:
        *_, (_, _, stop) = pickletools.genops(bytes(content))
    except Exception:  # noqa: BLE001  # what genops raises for damage is not written down
        return
    assert end_of(bytes(content)) == ("whole" if stop == len(content) - 1 else "trailing")


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_have_an_end(end_of, content):
    assert end_of(content) in {"empty", "not-a-pickle", "truncated", "broken", "trailing", "whole"}
    assert end_of(b"\x80\x04" + content) in {"truncated", "broken", "trailing", "whole"}


def test_a_file_that_shrinks_while_it_is_read_is_truncated(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"\x80\x04" + b"N" * 300_000 + b".")
    with path.open("rb", buffering=0) as file:
        read = file.read

        class Shrinking:
            """Cut in half by another process after the first read."""

            fileno = file.fileno
            seek = file.seek

            def read(self, count):
                content = read(count)
                os.truncate(path, 100_000)
                return content

        assert pickle_end(Shrinking()) == "truncated"
