"""Hypothesis strategies for the values of `cachekeeper.core`; a time is never part of a test."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from cachekeeper.core.attributes import Attribute, AttributeList
from cachekeeper.core.digests import digest_of
from cachekeeper.core.manifest import Entry, Manifest, parents
from cachekeeper.core.record import RECORD_KINDS

# A busy machine is no failure.
unhurried = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])

COUNTS = st.integers(0, 2**63 - 1)
DIGESTS = st.sampled_from([digest_of(bytes([number])) for number in range(4)])
# Names that tools really write, and names that only an enemy or an accident writes.
_LIKELY_NAMES = [b"model", b"rank_0_0", b"inductor_cache", b"a", b"b", b"a.py", b"a-b", b"%41"]
_NAME_BYTES = st.binary(min_size=1, max_size=8)


def _name(data):
    name = data.replace(b"/", b"_").replace(b"\0", b"_")
    return b"..." if name in (b".", b"..") else name


NAMES = st.sampled_from(_LIKELY_NAMES) | _NAME_BYTES.map(_name)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(b"/".join)
ANY_PATHS = st.binary(max_size=40) | PATHS


def _entry(path, kind, size_bytes, digest):
    return Entry(path, kind, size_bytes, digest)


def _without_nested(entries):
    """Leave out what lies below another entry, and a path's second entry."""
    files = {entry.path: entry for entry in entries}
    return [
        entry for path, entry in files.items() if not any(top in files for top in parents(path))
    ]


ENTRIES = st.builds(_entry, PATHS, st.sampled_from("fl"), COUNTS, DIGESTS)
MANIFEST_ENTRIES = st.lists(ENTRIES, max_size=5).map(_without_nested)
SINGLE_FILE = st.builds(_entry, st.just(b""), st.sampled_from("fl"), COUNTS, DIGESTS)
MANIFESTS = (MANIFEST_ENTRIES | SINGLE_FILE.map(lambda entry: [entry])).map(Manifest.of)


def _attribute(path, kind, numbers, kept):
    mode, uid, gid, mtime_ns = numbers
    return Attribute(path, kind, mode, uid, gid, mtime_ns, *(kept if kind in "kt" else ()))


_NUMBERS = st.tuples(
    st.integers(0, 0o7777),
    st.sampled_from([0, 1000, 65534, 2**32 - 1]),
    st.integers(0, 2**32 - 1),
    st.integers(-(2**63), 2**90),
)
ATTRIBUTES = st.builds(
    _attribute, PATHS, st.sampled_from("flkt"), _NUMBERS, st.tuples(COUNTS, DIGESTS)
)


@st.composite
def attribute_lists(draw):
    """A family's attributes: files of any kind, and a directory above each."""
    files = _without_nested(draw(st.lists(ATTRIBUTES, max_size=4)))
    above = {directory for file in files for directory in parents(file.path)}
    directories = [Attribute(path, "d", *draw(_NUMBERS)) for path in sorted(above)]
    return AttributeList.of(directories + files)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=5,
)
RECORD_FIELDS = st.tuples(
    st.sampled_from(RECORD_KINDS),
    COUNTS,
    st.text(max_size=9),
    st.text(max_size=9),
    st.dictionaries(st.text(max_size=6), _JSON, max_size=3),
)


@st.composite
def damaged(draw, data):
    """The given bytes after one accident: a byte changed, lost or added, or lines moved."""
    place = draw(st.integers(0, len(data)))
    byte = bytes([draw(st.integers(0, 255))])
    lines = data.splitlines(keepends=True)
    return draw(
        st.sampled_from(
            [
                data[:place] + byte + data[place + 1 :],
                data[:place] + byte + data[place:],
                data[:place] + data[place + 1 :],
                data[:place],
                b"".join(lines[:1] + lines[:0:-1]),
                b"".join(lines + lines[-1:]),
            ]
        )
    )
