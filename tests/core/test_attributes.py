import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import attribute_lists, damaged, unhurried

from cachekeeper.core.attributes import Attribute, AttributeList
from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import FormatError

ONE = digest_of(b"one")
HEADER = "cachekeeper-attributes 1\n"


@unhurried
@given(attribute_lists())
def test_a_list_survives_its_bytes(attributes):
    """Parsing a list's bytes gives an equal list."""
    assert attributes == AttributeList.from_bytes(attributes.to_bytes())


@unhurried
@given(attribute_lists(), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(attributes, random):
    """The same attributes in any order are one list with one digest."""
    shuffled = list(attributes.entries)
    random.shuffle(shuffled)
    assert attributes == AttributeList.of(shuffled)
    assert digest_of(attributes.to_bytes()) == AttributeList.of(shuffled).digest


@unhurried
@given(attribute_lists(), st.data())
def test_lists_are_equal_when_their_digests_are(first, data):
    """Two lists have one digest exactly when they are equal."""
    entries = data.draw(st.sets(st.sampled_from(first.entries))) if first.entries else ()
    second = AttributeList.of(entries)
    assert (first == second) == (first.digest == second.digest)


@unhurried
@given(st.data())
def test_damaged_text_is_refused_or_is_another_whole_list(data):
    """What is accepted is written back to the same bytes."""
    text = data.draw(damaged(data.draw(attribute_lists()).to_bytes()))
    try:
        attributes = AttributeList.from_bytes(text)
    except FormatError:
        return
    assert text == attributes.to_bytes()


def test_the_bytes_are_those_of_the_format_page():
    """Octal mode, uid, gid, mtime in ns; size and digest for locks and temporary files alone."""
    attributes = AttributeList.of(
        [
            Attribute(b"x.lock", "k", 0o644, 1, 2, -5, 0, ONE),
            Attribute(b"", "d", 0o755, 0, 0, 1_700_000_000_123_456_789),
            Attribute(b"m x", "f", 0o4600, 1000, 100, 0),
            Attribute(b"n", "l", 0o777, 0, 0, 7),
            Attribute(b"tmp.1/a", "t", 0, 0, 0, 7, 12, ONE),
        ]
    )
    assert (
        f"{HEADER}"
        "d 755 0 0 1700000000123456789 - - %\n"
        "f 4600 1000 100 0 - - m%20x\n"
        "l 777 0 0 7 - - n\n"
        f"t 0 0 0 7 12 {ONE} tmp.1/a\n"
        f"k 644 1 2 -5 0 {ONE} x.lock\n"
    ).encode() == attributes.to_bytes()


def test_entries_are_found_by_path():
    """Each entry is found by its path."""
    one, two = Attribute(b"a", "f", 0o600, 0, 0, 1), Attribute(b"", "d", 0o700, 0, 0, 1)
    assert {b"a": one, b"": two} == AttributeList.of([one, two]).by_path()


@pytest.mark.parametrize(
    "line",
    [
        "",
        "f 644 0 0 1 - - ",
        "f 644 0 0 1 - a",
        "f 644 0 0 1 - - a b",
        "x 644 0 0 1 - - a",
        "f 648 0 0 1 - - a",
        "f 0644 0 0 1 - - a",
        "f 0o644 0 0 1 - - a",
        "f 6_4 0 0 1 - - a",
        "f +644 0 0 1 - - a",
        "f -1 0 0 1 - - a",
        "f 10000 0 0 1 - - a",
        "f 77777777 0 0 1 - - a",
        "f 644 -1 0 1 - - a",
        "f 644 0 01 1 - - a",
        "f 644 0 0 1.5 - - a",
        "f 644 0 0 1_0 - - a",
        "f 644 0 0 -0 - - a",
        "f 644 0 0 +1 - - a",
        f"f 644 0 0 {'9' * 5000} - - a",
        f"f 644 0 0 1 3 {ONE} a",
        "k 644 0 0 1 - - a.lock",
        f"k 644 0 0 1 -3 {ONE} a.lock",
        "t 644 0 0 1 3 abc a.tmp",
        "f 644 0 0 1 - - ../a",
        "f 644 0 0 1 - - /a",
    ],
)
def test_lines_that_do_not_follow_the_format_are_refused(line):
    """A wrong kind, another spelling of a number, a path out of the family: all are refused."""
    with pytest.raises(FormatError):
        AttributeList.from_bytes(f"{HEADER}{line}\n".encode())


@pytest.mark.parametrize("names", [["a", "a"], ["b", "a"]])
def test_a_path_twice_or_out_of_order_is_refused(names):
    """There is one way to write a list down."""
    text = HEADER + "".join(f"f 644 0 0 1 - - {name}\n" for name in names)
    with pytest.raises(FormatError, match="out of order or stands twice"):
        AttributeList.from_bytes(text.encode())


@pytest.mark.parametrize("kind", ["f", "l"])
def test_a_path_below_a_file_or_link_is_refused(kind):
    """A list that would write through a link to another place cannot be read."""
    text = f"{HEADER}{kind} 777 0 0 1 - - a\nk 644 0 0 1 0 {ONE} a/x.lock\n"
    with pytest.raises(FormatError, match="lies below a file"):
        AttributeList.from_bytes(text.encode())


def test_a_list_that_cannot_be_read_back_is_not_made():
    """`of` refuses what `from_bytes` would refuse."""
    one = Attribute(b"a", "f", 0o600, 0, 0, 1)
    with pytest.raises(FormatError, match="twice"):
        AttributeList.of([one, one])
    with pytest.raises(FormatError, match="below a file"):
        AttributeList.of([one, Attribute(b"a/b", "f", 0o600, 0, 0, 1)])


@pytest.mark.parametrize("data", [b"", b"cachekeeper-manifest 1\n", HEADER.encode()[:-1]])
def test_another_header_is_refused(data):
    """A text that is no attribute list, or not a whole one, is refused."""
    with pytest.raises(FormatError, match="header"):
        AttributeList.from_bytes(data)
