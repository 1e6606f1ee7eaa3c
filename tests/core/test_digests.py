import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from strategies import unhurried

from cachekeeper.core.digests import ALGORITHM, DIGEST_HEX, Hasher, digest_of, parse_digest
from cachekeeper.core.errors import FormatError


def test_the_digest_is_blake3_as_published():
    """The empty input has the digest that the BLAKE3 authors publish, so `b3sum` agrees."""
    expected = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert expected == digest_of(b"")
    assert (ALGORITHM, DIGEST_HEX) == ("blake3", 64)


@unhurried
@given(st.lists(st.binary(max_size=50), max_size=5))
def test_hashing_in_pieces_is_hashing_the_whole(pieces):
    """A hasher that is fed pieces gives the digest of all of them together."""
    hasher = Hasher()
    for piece in pieces:
        hasher.update(piece)
    assert digest_of(b"".join(pieces)) == hasher.hexdigest()
    assert blake3(b"".join(pieces)).hexdigest() == hasher.hexdigest()


@unhurried
@given(st.binary())
def test_every_digest_is_accepted(data):
    """What `digest_of` returns is a digest."""
    assert digest_of(data) == parse_digest(digest_of(data))


@pytest.mark.parametrize(
    "text",
    ["", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "a" * 64 + "\n", " " + "a" * 63, "٣" * 64],
)
def test_what_is_no_whole_digest_is_refused(text):
    """Only 64 lower-case hex digits and nothing else are a digest."""
    with pytest.raises(FormatError, match="not a BLAKE3 digest"):
        parse_digest(text)
