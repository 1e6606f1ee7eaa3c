import glob
import io
import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachekeeper.inspect.artifact_crc import check_artifact


def _artifact(magic=b"CacheCompiledArtifact", payload=b"payload"):
    body = len(magic).to_bytes(8, "big") + magic + payload
    return zlib.crc32(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("label", ["A", "A3", "A4", "Ap", "LT", "MT3"])
def test_real_artifacts_are_whole(real_tree, label):
    top = os.fsdecode(real_tree(label)) + "/torch_compile_cache"
    paths = glob.glob(f"{top}/*/rank_*/backbone/artifact_*")
    assert paths
    for path in paths:
        with open(path, "rb") as file:
            assert check_artifact(file) == "whole"


@pytest.fixture(scope="module")
def real_artifact(real_tree):
    """Give the bytes of one real artifact, longer than one block."""
    top = os.fsdecode(real_tree("A")) + "/torch_compile_cache"
    (path,) = glob.glob(f"{top}/*/rank_0_0/backbone/artifact_*_subgraph_0")
    with open(path, "rb") as file:
        return file.read()


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_a_flipped_byte_of_a_real_artifact_is_found(real_artifact, data):
    content = bytearray(real_artifact)
    head = 12 + len(b"CacheCompiledArtifact")
    position = data.draw(st.integers(0, 3) | st.integers(head, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    assert check_artifact(io.BytesIO(content)) == "damaged"


@pytest.mark.parametrize("kept", [33, 100, 1024 * 1024, -1])
def test_a_cut_artifact_is_found(real_artifact, kept):
    assert check_artifact(io.BytesIO(real_artifact[:kept])) == "damaged"


def test_more_bytes_are_found(real_artifact):
    assert check_artifact(io.BytesIO(real_artifact + b"x")) == "damaged"


@pytest.mark.parametrize("magic", [b"CacheCompiledArtifact", b"AOTCompiledArtifact"])
@pytest.mark.parametrize("payload", [b"", b"x", b"x" * 3_000_000])
def test_both_known_heads_are_checked(magic, payload):
    content = _artifact(magic, payload)
    assert check_artifact(io.BytesIO(content)) == "whole"
    assert check_artifact(io.BytesIO(content + b"x")) == "damaged"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"\0\0\0\0" + b"CacheCompiledArtifact",
        _artifact(b"OtherCompiledArtifact"),
        _artifact()[:20],
        b"\x80\x04N.",
    ],
)
def test_unknown_heads_are_not_judged(content):
    assert check_artifact(io.BytesIO(content)) == "unchecked"


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_have_a_state(content):
    assert check_artifact(io.BytesIO(content)) in {"whole", "damaged", "unchecked"}
