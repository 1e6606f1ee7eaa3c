"""Laziness: each question indexes what came, and only that."""

import sqlite3

import pytest
from builders_records import STORE, MemorySource, family, root

from cachekeeper.catalogue import catch_up as catching
from cachekeeper.catalogue.catalogue import Catalogue
from cachekeeper.catalogue.rows import DamagedRecord, RebuildCounts
from cachekeeper.core.errors import DamagedStoreError, FormatError, NewerFormatError


def _sequences(catalogue):
    return [event.sequence for event in catalogue.events()]


def test_a_new_record_appears_at_the_next_question(catalogue, source):
    source.snapshot(root([family(1)]))
    assert _sequences(catalogue) == [1]
    source.snapshot(root([family(1)]))
    assert len(catalogue.snapshots()) == 2
    source.pin("fast", source.snapshot(), family(1))
    assert len(catalogue.pins()) == 1


def test_an_indexed_record_is_not_read_again(catalogue, source, path):
    first = source.snapshot(root([family(1)]))
    assert _sequences(catalogue) == _sequences(catalogue) == [1]
    second = source.snapshot(root())
    assert _sequences(catalogue) == [2, 1]
    assert source.reads == [first.digest, second.digest]
    catalogue.close()
    with Catalogue(str(path), STORE, source) as again:
        assert _sequences(again) == [2, 1]
    assert len(source.reads) == 2


def test_without_news_nothing_is_locked(catalogue, source, path):
    source.snapshot(root([family(1)]))
    catalogue.events()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert len(catalogue.snapshots()) == 1
    other.execute("ROLLBACK")
    other.close()


def test_records_that_are_gone_leave_nothing(catalogue, source):
    pinned = source.snapshot(root([family(1)]))
    kept = source.snapshot(root([family(2)]))
    pin = source.pin("fast", pinned, family(1))
    mark = source.mark("pin", pin.digest, "suspect")
    assert len(catalogue.events()) == 4
    for record in (pinned, pin, mark):
        del source.records[record.digest]
    assert [row.digest for row in catalogue.snapshots()] == [kept.digest]
    assert catalogue.pins(include_removed=True) == ()
    assert catalogue.statuses_of("pin", pin.digest) == ()
    assert [row.build for row in catalogue.referenced_builds()] == [family(2)["build"]]
    source.records[mark.digest] = mark
    assert _sequences(catalogue) == [4, 2]


def test_more_records_than_one_batch(catalogue, source, monkeypatch):
    monkeypatch.setattr(catching, "_BATCH", 3)
    for number in range(10):
        source.snapshot(root([family(number), family("same")]))
    assert _sequences(catalogue) == list(range(10, 0, -1))
    assert len(catalogue.referenced_builds()) == 20
    assert catalogue.rebuild() == RebuildCounts(records=10, snapshots=10, pins=0, runs=0)


@pytest.mark.parametrize("error", [DamagedStoreError, FormatError, NewerFormatError])
def test_a_record_that_cannot_be_read_stops_no_question(catalogue, source, error):
    source.snapshot(root([family(1)]))
    bad = source.snapshot(root([family(2)]))
    source.broken[bad.digest] = error("the record is not what its name says")
    source.snapshot(root([family(3)]))
    assert _sequences(catalogue) == [3, 1]
    assert catalogue.damaged() == (
        DamagedRecord("snapshot", bad.digest, "the record is not what its name says"),
    )


def test_a_record_without_the_needed_fields_is_damaged(catalogue, source):
    bad = source.add("pin", {"name": "fast"})
    assert catalogue.pins() == ()
    assert catalogue.damaged() == (
        DamagedRecord("pin", bad.digest, "the record has no text 'key'"),
    )


def test_a_damaged_record_that_is_repaired_is_indexed(catalogue, source):
    bad = source.snapshot(root([family(1)]))
    source.broken[bad.digest] = DamagedStoreError("missing")
    assert catalogue.snapshots() == ()
    source.broken[bad.digest] = DamagedStoreError("cut short")
    assert catalogue.damaged()[0].fact == "cut short"
    source.broken.clear()
    assert len(catalogue.snapshots()) == 1
    assert catalogue.damaged() == ()


def test_a_damaged_record_that_is_gone_is_forgotten(catalogue, source):
    bad = source.snapshot(root())
    source.broken[bad.digest] = DamagedStoreError("missing")
    assert len(catalogue.damaged()) == 1
    source.records.clear()
    assert catalogue.damaged() == ()


def test_damage_that_is_known_is_not_written_again(catalogue, source, path):
    bad = source.snapshot(root())
    source.broken[bad.digest] = DamagedStoreError("missing")
    catalogue.events()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert len(catalogue.damaged()) == 1
    other.execute("ROLLBACK")
    other.close()


def test_a_record_indexed_by_another_process_meanwhile_is_kept(catalogue, source, path):
    """It was not listed yet when this one looked; then the other one listed and indexed it."""
    source.snapshot(root())
    catalogue.events()
    other = Catalogue(str(path), STORE, source)
    names = source.names

    def listing():
        source.names = names
        source.snapshot(root([family(2)]))
        assert len(other.events()) == 2
        return names()

    source.names = listing
    assert len(catalogue.events()) in (1, 2)
    assert _sequences(catalogue) == [2, 1]
    other.close()


def test_a_question_that_fails_half_way_leaves_the_index_as_it_was(catalogue, source):
    source.snapshot(root([family(1)]))
    source.snapshot(root([family(2)]))
    source.broken[list(source.records)[1]] = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        catalogue.events()
    source.broken.clear()
    assert _sequences(catalogue) == [2, 1]


def test_a_bug_in_a_rebuild_loses_nothing(catalogue, source):
    source.snapshot(root([family(1)]))
    catalogue.events()
    source.broken[next(iter(source.records))] = RuntimeError("a bug")
    with pytest.raises(RuntimeError):
        catalogue.rebuild()
    assert _sequences(catalogue) == [1]


def test_a_rebuild_counts_what_there_is(catalogue, source):
    snapshot = source.snapshot(root([family(1)]))
    pin = source.pin("gone", snapshot, family(1))
    source.pin("fast", snapshot, family(1))
    source.unpin(pin)
    bad = source.snapshot(root())
    source.broken[bad.digest] = DamagedStoreError("missing")
    assert catalogue.rebuild() == RebuildCounts(records=4, snapshots=1, pins=1, runs=0)
    assert catalogue.damaged()[0].digest == bad.digest


def test_a_rebuild_reads_every_record_anew(catalogue, source):
    source.snapshot(root())
    catalogue.events()
    catalogue.rebuild()
    assert len(source.reads) == 2


def test_a_closed_catalogue_opens_again(catalogue, source):
    catalogue.close()
    catalogue.close()
    source.snapshot(root())
    assert _sequences(catalogue) == [1]


def test_a_source_of_names_in_any_order(path):
    source = MemorySource()
    for _ in range(5):
        source.snapshot(root())
    source.records = dict(reversed(source.records.items()))
    with Catalogue(str(path), STORE, source) as opened:
        assert _sequences(opened) == [5, 4, 3, 2, 1]
