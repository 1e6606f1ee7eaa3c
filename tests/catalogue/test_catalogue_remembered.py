"""Remembered digests: opaque bytes that no record holds."""

from builders_records import ROOT, STORE, MemorySource, root

from cachekeeper.catalogue.catalogue import Catalogue


def test_nothing_is_remembered_at_first(catalogue):
    assert catalogue.remembered(ROOT, "family") is None


def test_what_was_given_last_is_remembered(catalogue):
    catalogue.remember(ROOT, {"one": b"\x00\xff", "two": b""})
    catalogue.remember(ROOT, {"one": b"new", "three": b"3"})
    assert [catalogue.remembered(ROOT, name) for name in ("one", "two", "three", "four")] == [
        b"new", b"", b"3", None,
    ]  # fmt: skip
    assert catalogue.remembered("/other", "one") is None


def test_it_outlives_the_process(catalogue, source, path):
    catalogue.remember(ROOT, {"one": b"1"})
    catalogue.close()
    with Catalogue(str(path), STORE, source) as again:
        assert again.remembered(ROOT, "one") == b"1"


def test_remembering_reads_no_record(catalogue, source):
    source.snapshot(root())
    catalogue.remember(ROOT, {"one": b"1"})
    catalogue.remembered(ROOT, "one")
    assert source.reads == []


def test_remembering_nothing_opens_nothing(path, source):
    with Catalogue(str(path), STORE, source) as catalogue:
        catalogue.remember(ROOT, {})
    assert not path.exists()


def test_a_rebuild_forgets(catalogue):
    catalogue.remember(ROOT, {"one": b"1"})
    catalogue.rebuild()
    assert catalogue.remembered(ROOT, "one") is None


def test_two_stores_in_one_file_stay_apart(catalogue, source, path):
    other_source = MemorySource(store="6" * 32)
    with Catalogue(str(path), "6" * 32, other_source) as other:
        source.snapshot(root())
        mine = source.records
        other_source.records.update(mine)  # the very same records: nothing but the id differs
        catalogue.remember(ROOT, {"one": b"mine"})
        other.remember(ROOT, {"one": b"other"})
        assert catalogue.snapshots() == other.snapshots()
        other_source.records = {}
        assert other.events() == ()
        other.rebuild()
        assert len(catalogue.events()) == 1
        assert catalogue.remembered(ROOT, "one") == b"mine"
