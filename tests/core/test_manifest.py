import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import MANIFEST_ENTRIES, MANIFESTS, PATHS, damaged, unhurried

from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import FormatError
from cachekeeper.core.manifest import Entry, Manifest, parents, parse_count

ONE, TWO = digest_of(b"one"), digest_of(b"two")
HEADER = b"cachekeeper-manifest 1\n"


def _line(path, kind="f", size="3", digest=ONE):
    return f"{kind} {size} {digest} {path}\n".encode()


@unhurried
@given(MANIFESTS)
def test_a_manifest_survives_its_bytes(manifest):
    """Parsing a manifest's bytes gives an equal manifest."""
    assert manifest == Manifest.from_bytes(manifest.to_bytes())


@unhurried
@given(MANIFEST_ENTRIES, st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_matter(entries, random):
    """The same entries in any order are one build."""
    shuffled = list(entries)
    random.shuffle(shuffled)
    assert Manifest.of(entries) == Manifest.of(shuffled)
    assert Manifest.of(entries).build_id == Manifest.of(shuffled).build_id


@unhurried
@given(MANIFESTS, MANIFESTS, st.booleans())
def test_manifests_are_equal_when_their_digests_are(first, other, is_copy):
    """Two manifests have one build id exactly when they are equal."""
    second = Manifest.of(reversed(first.entries)) if is_copy else other
    assert (first == second) == (first.build_id == second.build_id)


@unhurried
@given(MANIFESTS, st.data())
def test_any_change_of_an_entry_is_another_build(manifest, data):
    """Another size, kind, digest or path of one entry gives another build id."""
    entries = list(manifest.entries) or [Entry(b"a", "f", 3, ONE)]
    place = data.draw(st.integers(0, len(entries) - 1))
    was = entries[place]
    entries[place] = data.draw(
        st.sampled_from(
            [
                Entry(was.path, "l" if was.kind == "f" else "f", was.size_bytes, was.digest),
                Entry(was.path, was.kind, was.size_bytes + 1, was.digest),
                Entry(was.path, was.kind, was.size_bytes, digest_of(was.digest.encode())),
                Entry(was.path + b"\xff", was.kind, was.size_bytes, was.digest),
            ]
        )
    )
    assert manifest.build_id != Manifest(tuple(entries)).build_id


@unhurried
@given(st.data())
def test_damaged_text_is_refused_or_is_another_whole_manifest(data):
    """What is accepted is written back to the same bytes, so their digest is the build id."""
    text = data.draw(damaged(data.draw(MANIFESTS).to_bytes()))
    try:
        manifest = Manifest.from_bytes(text)
    except FormatError:
        return
    assert text == manifest.to_bytes()
    assert digest_of(text) == manifest.build_id


def test_the_bytes_are_those_of_the_format_page():
    """A header, then kind, size, digest and path of each entry, sorted by path bytes."""
    entries = [
        Entry(b"b", "l", 0, TWO),
        Entry(b"a b", "f", 12, ONE),
        Entry(b"a/c", "f", 3, TWO),
        Entry(b"a-c", "f", 1, ONE),
    ]
    manifest = Manifest.of(entries)
    assert (
        f"cachekeeper-manifest 1\nf 12 {ONE} a%20b\nf 1 {ONE} a-c\nf 3 {TWO} a/c\nl 0 {TWO} b\n"
    ).encode() == manifest.to_bytes()
    assert digest_of(manifest.to_bytes()) == manifest.build_id


def test_an_empty_manifest_is_its_header():
    """A family without files is a build too."""
    assert Manifest.of([]).to_bytes() == HEADER
    assert Manifest(()) == Manifest.from_bytes(HEADER)
    assert Manifest(()).by_path() == {}


def test_sums_and_look_ups():
    """The size is the sum of all entries, and each entry is found by its path."""
    one, two = Entry(b"a", "f", 3, ONE), Entry(b"b/c", "l", 4, TWO)
    manifest = Manifest.of([two, one])
    assert manifest.size_bytes == 7
    assert {b"a": one, b"b/c": two} == manifest.by_path()


def test_a_single_file_is_the_empty_path():
    """A family that is one file has one entry, written as a percent sign."""
    manifest = Manifest.of([Entry(b"", "f", 3, ONE)])
    assert HEADER + _line("%") == manifest.to_bytes()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"cachekeeper-manifest 1",
        b"cachekeeper-manifest 2\n",
        b"cachekeeper-attributes 1\n",
        b"\n" + HEADER,
        HEADER + b"\n",
        HEADER + _line("a")[:-1],
        HEADER + _line("a") + b"\n",
        HEADER + _line("a").replace(b"\n", b"\r\n"),
        HEADER + _line("é"),
        HEADER + _line("a b"),
        HEADER + _line("a", kind="d"),
        HEADER + _line("a", kind="F"),
        HEADER + _line("a", size="-1"),
        HEADER + _line("a", size="03"),
        HEADER + _line("a", size="1_0"),
        HEADER + _line("a", size="+3"),
        HEADER + _line("a", size=""),
        HEADER + _line("a", size="9" * 5000),
        HEADER + _line("a", digest="-"),
        HEADER + _line("a", digest=ONE.upper()),
        HEADER + f"f 3 {ONE}\n".encode(),
        HEADER + _line("%41"),
    ],
)
def test_text_that_does_not_follow_the_format_is_refused(data):
    """A wrong header, half a line, another spelling of a number: all are refused."""
    with pytest.raises(FormatError):
        Manifest.from_bytes(data)


@pytest.mark.parametrize("path", ["/etc/passwd", "..", "a/../../b", "./a", "a//b", "a/", "a%00b"])
def test_paths_out_of_the_family_are_refused(path):
    """A manifest that names another place cannot be read."""
    with pytest.raises(FormatError, match="leaves its tree"):
        Manifest.from_bytes(HEADER + _line(path))


@pytest.mark.parametrize("paths", [["a", "a"], ["b", "a"], ["a.b", "a"], ["%", "%"]])
def test_a_path_twice_or_out_of_order_is_refused(paths):
    """There is one way to write a manifest down."""
    with pytest.raises(FormatError, match="out of order or stands twice"):
        Manifest.from_bytes(HEADER + b"".join(_line(path) for path in paths))


@pytest.mark.parametrize("paths", [["a", "a/b"], ["a", "a-b", "a/b/c"], ["%", "a"]])
def test_a_path_below_a_file_is_refused(paths):
    """Nothing can lie below a file or a link, near or far."""
    with pytest.raises(FormatError, match="lies below a file"):
        Manifest.from_bytes(HEADER + b"".join(_line(path) for path in paths))


def test_a_manifest_that_cannot_be_read_back_is_not_made():
    """`of` refuses what `from_bytes` would refuse."""
    with pytest.raises(FormatError, match="twice"):
        Manifest.of([Entry(b"a", "f", 1, ONE), Entry(b"a", "f", 1, ONE)])
    with pytest.raises(FormatError, match="below a file"):
        Manifest.of([Entry(b"a", "l", 1, ONE), Entry(b"a/b", "f", 1, ONE)])


@unhurried
@given(PATHS)
def test_parents_are_all_proper_ancestors(path):
    """Each parent is a shorter prefix that ends at a slash, the tree itself first."""
    above = parents(path)
    assert above[0] == b""
    assert path.count(b"/") + 1 == len(above)
    assert all(path.startswith(parent + b"/") for parent in above[1:])
    assert sorted(set(above)) == list(above)


def test_the_tree_itself_has_no_parents():
    """Nothing is above the empty path."""
    assert parents(b"") == ()


@unhurried
@given(st.integers(0, 2**64 - 1))
def test_plain_numbers_are_read(number):
    """A number in decimal digits is read as that number."""
    assert number == parse_count(str(number))


@pytest.mark.parametrize("text", ["", "-1", "+1", "1.0", "1_0", " 1", "0x1", "٣", "²", "00", "01"])
def test_other_spellings_of_numbers_are_refused(text):
    """One number has one spelling."""
    with pytest.raises(FormatError, match="not a plain number"):
        parse_count(text)
