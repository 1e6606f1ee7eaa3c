import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import unhurried

from cachekeeper.core.errors import AmbiguousReferenceError, UnknownReferenceError, UsageError
from cachekeeper.core.references import (
    Reference,
    is_prefix,
    nearest,
    only_match,
    parse_pin_name,
    parse_reference,
)

HEX = st.text("0123456789abcdef", min_size=4, max_size=64)
MARKS = {"b": "build", "s": "snapshot", "r": "run", "live": "live"}


@unhurried
@given(st.sampled_from(sorted(MARKS)), HEX)
def test_a_mark_and_a_prefix_are_a_reference_of_that_kind(mark, prefix):
    """After a mark the prefix is kept as it is."""
    assert Reference(MARKS[mark], prefix) == parse_reference(f"{mark}:{prefix}")


@unhurried
@given(st.sampled_from(sorted(MARKS)), HEX)
def test_a_mark_twice_does_no_harm(mark, prefix):
    """A mark that a script puts before a whole reference is the same mark."""
    assert Reference(MARKS[mark], prefix) == parse_reference(f"{mark}:{mark}:{prefix}")


def _reference_or_refusal(text):
    try:
        return parse_reference(text)
    except UsageError as error:
        return error


@unhurried
@given(st.text(min_size=1) | st.text("bslive:r01af", min_size=1))
def test_text_is_a_name_or_marked_or_refused(text):
    """Whatever is typed becomes a reference that holds it, or is refused with itself and a hint."""
    found = _reference_or_refusal(text)
    if isinstance(found, UsageError):
        assert (repr(text) in found.fact, bool(found.hint)) == (True, True)
    else:
        assert text.endswith(found.text)
        assert (found.kind == "name") == (text == found.text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c158", Reference("name", "c158")),
        ("fast", Reference("name", "fast")),
        ("x:y", Reference("name", "x:y")),
        ("B:1a2b", Reference("name", "B:1a2b")),
        ("live", Reference("name", "live")),
        ("b:1a2b", Reference("build", "1a2b")),
        ("s:1a2b", Reference("snapshot", "1a2b")),
        ("live:c158", Reference("live", "c158")),
        ("r:nightly run 3", Reference("run", "nightly run 3")),
        ("r:x", Reference("run", "x")),
    ],
)
def test_references_of_the_command_lines_contract(text, expected):
    """Names stand alone, other things after their mark; a run may have any label."""
    assert expected == parse_reference(text)


@pytest.mark.parametrize(
    "text", ["", "b:", "b:1a2", "b:1A2B", "b:xyzw", "s:", "live:", "live:fast", "r:", "b:s:1a2b"]
)
def test_what_can_name_nothing_is_refused(text):
    """An empty reference, or a mark without 4 to 64 hex digits, is wrong usage with a hint."""
    with pytest.raises(UsageError) as caught:
        parse_reference(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c158", True),
        ("c15860dd" * 8, True),
        ("c15", False),
        ("c" * 65, False),
        ("C158", False),
        ("c158\n", False),
        ("", False),
    ],
)
def test_prefixes_are_4_to_64_lower_case_hex_digits(text, expected):
    """Anything shorter, longer or of other characters is no prefix of a hash."""
    assert expected == is_prefix(text)


@unhurried
@given(
    st.sampled_from(string.ascii_letters + string.digits),
    st.text(string.ascii_letters + string.digits + "._+@=-", max_size=127),
)
def test_pin_names_of_the_allowed_characters_are_accepted(first, rest):
    """A letter or digit, then letters, digits and . _ + @ = -, 128 at most."""
    assert first + rest == parse_pin_name(first + rest)


@pytest.mark.parametrize(
    "name", ["", "-x", ".x", "a/b", "a b", "a:b", "a\n", "é", "x" * 129, "../x", "%41"]
)
def test_other_pin_names_are_refused(name):
    """A name that could be an option, a path or a marked reference is refused with a hint."""
    with pytest.raises(UsageError, match="no pin name") as caught:
        parse_pin_name(name)
    assert "letters, digits" in caught.value.hint


def test_the_only_match_is_returned():
    """One match, even if it was found twice, is the answer."""
    assert only_match("fa", ["fast", "fast"], ["fast", "slow"]) == "fast"


def test_several_matches_are_refused_with_the_candidates():
    """All candidates are attached, sorted, each once."""
    with pytest.raises(AmbiguousReferenceError, match="it fits c158a, c158b") as caught:
        only_match("c158", ["c158b", "c158a", "c158b"], [])
    assert caught.value.candidates == ("c158a", "c158b")
    assert caught.value.hint == "type more of it"


def test_no_match_is_refused_with_the_nearest_names():
    """What nobody knows is refused, and what was perhaps meant is the hint."""
    with pytest.raises(UnknownReferenceError, match="nothing is known as 'fats'") as caught:
        only_match("fats", [], ["fast", "slow"])
    assert caught.value.hint == "did you mean fast?"


def test_no_match_and_nothing_near():
    """Where nothing looks like it, the hint names the command that lists what there is."""
    with pytest.raises(UnknownReferenceError) as caught:
        only_match("xyz", [], ["fast"])
    assert caught.value.hint == "cachekeeper scan lists what is there"


def test_near_names_are_shortened_as_hashes_are_shown():
    """Long names are cut to the length of what was typed, 8 characters at least; three at most."""
    known = [f"c15860d{digit}" + "0" * 56 for digit in "0123"]
    found = nearest("c158", known)
    assert len(found) == 3
    assert {name[:8] for name in known} > set(found)
    assert nearest("c15860d0ff", known[:1]) == ("c15860d000",)
