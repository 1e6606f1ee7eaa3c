import os

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import ANY_PATHS, PATHS, unhurried

from cachekeeper.core.errors import FormatError
from cachekeeper.core.paths import check_inside, parse_path, path_text, shown


@unhurried
@given(st.binary())
def test_any_bytes_survive_their_text_form(path):
    """Parsing the text form of any bytes gives the bytes back."""
    assert path == parse_path(path_text(path))


@unhurried
@given(st.binary())
def test_the_text_form_is_one_printable_ascii_word(path):
    """A text form can stand in a line of fields: no blank, no newline, nothing beyond ASCII."""
    text = path_text(path)
    assert (True, True, [text]) == (text.isascii(), text.isprintable(), text.split())


@unhurried
@given(st.binary(), st.binary())
def test_different_paths_have_different_text_forms(first, second):
    """No two paths are written alike."""
    assert (first == second) == (path_text(first) == path_text(second))


@unhurried
@given(st.text(st.sampled_from("%0123456789ABCDEFabcdef/.a\n é"), max_size=12))
def test_a_path_has_one_text_form_only(text):
    """Text is refused unless it is exactly how its path is written."""
    try:
        path = parse_path(text)
    except FormatError:
        return
    assert text == path_text(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"", "%"),
        (b"rank_0_0/model", "rank_0_0/model"),
        (b"a b", "a%20b"),
        (b"100%", "100%25"),
        (b"line\nbreak", "line%0Abreak"),
        (b"\xff\x00", "%FF%00"),
        ("é".encode(), "%C3%A9"),
        (b"/abs/~!", "/abs/~!"),
    ],
)
def test_text_forms_as_the_format_page_says(path, expected):
    """Each byte that is no printable ASCII, and the percent sign, is written as %XX."""
    assert expected == path_text(path)
    assert path == parse_path(expected)


@pytest.mark.parametrize(
    "text", ["", "a b", "a\n", "%%", "%2", "%zz", "%ff", "é", "%41", "%2F", "a%"]
)
def test_other_spellings_are_refused(text):
    """A blank, half an escape, lower-case digits and an escape nobody needs are refused."""
    with pytest.raises(FormatError):
        parse_path(text)


@unhurried
@given(ANY_PATHS)
def test_no_accepted_path_escapes_its_tree(path):
    """An accepted path, joined and normalised, is the tree itself or below it."""
    try:
        accepted = check_inside(path)
    except FormatError:
        return
    top = b"/store/tree"
    whole = os.path.join(top, accepted) if accepted else top
    assert whole == os.path.normpath(whole)
    assert whole == top or whole.startswith(top + b"/")
    assert b"\0" not in whole


@unhurried
@given(PATHS)
def test_every_honest_path_is_accepted(path):
    """A path of names that a file system can hold is returned as it is."""
    assert path == check_inside(path)


@pytest.mark.parametrize(
    "path", [b"/", b"/etc", b"..", b"a/..", b"a/../b", b".", b"./a", b"a//b", b"a/", b"a\0b"]
)
def test_paths_that_could_reach_elsewhere_are_refused(path):
    """Absolute paths, dot components, empty components and NUL bytes are refused by name."""
    with pytest.raises(FormatError, match="leaves its tree") as caught:
        check_inside(path)
    assert path_text(path) in caught.value.fact


@unhurried
@given(st.binary())
def test_shown_paths_never_steer_a_terminal(path):
    """What people see holds no control character, whatever the path holds."""
    assert shown(path).isprintable()


@unhurried
@given(st.text())
def test_printable_text_is_shown_as_it_is(text):
    """A UTF-8 path without control characters is shown unchanged."""
    assume(text.isprintable())
    assert text == shown(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"caf\xe9", "caf\\xe9"),
        (b"a\nb", "a\\nb"),
        (b"\x1b[31m", "\\x1b[31m"),
        ("a\u202eb".encode(), "a\\u202eb"),
    ],
)
def test_odd_bytes_are_shown_escaped(path, expected):
    """Bytes that are no UTF-8, control characters and text direction marks are escaped."""
    assert expected == shown(path)
