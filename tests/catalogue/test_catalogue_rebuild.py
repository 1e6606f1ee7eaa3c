"""The catalogue holds nothing that the records do not: however it came about, it says the same."""

from builders_records import ROOT, STORE, MemorySource, family, link, root
from hypothesis import given, settings
from hypothesis import strategies as st

from cachekeeper.catalogue.catalogue import Catalogue
from cachekeeper.core.errors import DamagedStoreError

ROOTS = (ROOT, "/tmp/other%20root")
labels, contents = st.integers(0, 3), st.integers(0, 2)
families = st.builds(
    family, labels, contents, kind=st.sampled_from(["aot", "other"]), bytes=st.sampled_from([0, 9])
)
links = st.builds(link, labels, st.sampled_from(["aa", "bb"]), st.sampled_from(["log", "run"]))
roots = st.builds(
    root, st.lists(families, max_size=4), st.lists(links, max_size=3), st.sampled_from(ROOTS)
)
picks = st.integers(0, 99)
steps = st.one_of(
    st.tuples(st.just("snapshot"), st.lists(roots, max_size=2)),
    st.tuples(st.just("pin"), picks, st.lists(families, max_size=2), st.sampled_from("ab")),
    st.tuples(st.just("unpin"), picks),
    st.tuples(st.just("mark"), picks, st.sampled_from(["pin", "build"])),
    st.tuples(st.just("break"), picks),
    st.tuples(st.just("repair")),
    st.tuples(st.just("lose"), picks),
    st.tuples(st.just("ask")),
)


def _all_answers(catalogue):
    keys = [family(label)["key"] for label in range(4)]
    records = catalogue._source.records.values()
    pins = [record.digest for record in records if record.kind == "pin"]
    return (
        catalogue.snapshots(),
        catalogue.pins(include_removed=True),
        catalogue.pins(),
        [catalogue.pin_named(name) for name in "ab"],
        catalogue.events(),
        catalogue.referenced_builds(),
        catalogue.builds_by_prefix(""),
        catalogue.builds_of_key("", None),
        [catalogue.links_of(ROOT, key) for key in keys],
        [catalogue.statuses_of("pin", target) for target in pins],
        catalogue.damaged(),
    )


def _pick(source, number, kind=None):
    found = [r for r in source.records.values() if kind in (None, r.kind)]
    return found[number % len(found)] if found else None


def _take(step, source, catalogue):
    """Do one step; one that needs a record does nothing where there is none."""
    verb, *arguments = step
    if verb == "snapshot":
        source.snapshot(*arguments[0])
    elif verb == "repair":
        source.broken.clear()
    elif verb == "ask":
        catalogue.events(1)
    elif chosen := _pick(source, arguments[0], "pin" if verb in ("unpin", "mark") else None):
        _take_on(verb, chosen, source, arguments)


def _take_on(verb, chosen, source, arguments):
    if verb == "pin":
        source.pin(arguments[2], chosen, *arguments[1])
    elif verb == "unpin":
        source.unpin(chosen)
    elif verb == "mark":
        source.mark(arguments[1], chosen.digest, "suspect")
    elif verb == "break":
        source.broken[chosen.digest] = DamagedStoreError("the record is missing")
    else:
        del source.records[chosen.digest]


@settings(max_examples=12, deadline=None)
@given(st.lists(steps, max_size=20))
def test_a_rebuild_gives_equal_answers(tmp_path_factory, taken):
    folder = tmp_path_factory.mktemp("store")
    source = MemorySource()
    with Catalogue(str(folder / "nowhere" / "x"), STORE, source) as grown:
        for step in taken:
            _take(step, source, grown)
        # what was indexed before it broke stays indexed, so all is whole for the comparison
        source.broken.clear()
        expected = _all_answers(grown)
        with Catalogue(str(folder / "nowhere" / "y"), STORE, source) as fresh:
            assert _all_answers(fresh) == expected
        counts = grown.rebuild()
        assert _all_answers(grown) == expected
    assert counts.records == len(source.records)
    assert counts.snapshots == len(expected[0])
    assert counts.pins == len(expected[2])


@settings(max_examples=4, deadline=None)
@given(st.lists(steps, max_size=12))
def test_a_rebuild_of_a_damaged_store_gives_equal_answers(tmp_path_factory, taken):
    folder = tmp_path_factory.mktemp("store")
    source = MemorySource()
    with Catalogue(str(folder / "nowhere" / "x"), STORE, source) as grown:
        for step in taken:
            _take(step, source, grown)
        grown.rebuild()
        expected = _all_answers(grown)
        with Catalogue(str(folder / "nowhere" / "y"), STORE, source) as fresh:
            assert _all_answers(fresh) == expected
        assert set(source.broken) >= {record.digest for record in expected[-1]}
