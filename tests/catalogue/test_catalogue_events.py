"""The history: every record is one line of it."""

from builders_records import ROOT, family, root

from cachekeeper.catalogue.rows import EventRow


def test_no_records_no_history(catalogue):
    assert catalogue.events() == ()


def test_every_kind_has_its_line(catalogue, source):
    snapshot = source.snapshot(root([family(1)]), root(path="/t"), reason="pin", message="before")
    pin = source.pin("fast", snapshot, family(1))
    mark = source.mark("pin", pin.digest, "suspect", ref="fast", reason="slower")
    body = {"restore": "f" * 32, "root": ROOT, "refs": ["fast", "b:12"], "families": []}
    restore = source.add("restore", body)
    unpin = source.unpin(pin)
    assert catalogue.events() == (
        EventRow(5, unpin.at, "unpin", unpin.digest, "fast", "", None, ""),
        EventRow(4, restore.at, "restore", restore.digest, "fast, b:12", "f" * 32, ROOT, ""),
        EventRow(3, mark.at, "status", mark.digest, "fast", "suspect", None, "slower"),
        EventRow(2, pin.at, "pin", pin.digest, "fast", "floor", ROOT, "fast"),
        EventRow(
            1, snapshot.at, "snapshot", snapshot.digest, f"s:{snapshot.digest[:12]}", "before",
            ROOT, "pin",
        ),
    )  # fmt: skip


def test_a_limit_keeps_the_newest(catalogue, source):
    for _ in range(5):
        source.snapshot(root())
    assert [event.sequence for event in catalogue.events(2)] == [5, 4]
    assert catalogue.events(0) == ()
    assert len(catalogue.events(99)) == 5


def test_a_snapshot_of_no_root_has_no_root(catalogue, source):
    source.snapshot()
    assert catalogue.events()[0].root is None


def test_one_number_given_twice_keeps_both_records(catalogue, source):
    digests = {source.add("unpin", {"pin": str(n)}, sequence=7).digest for n in range(3)}
    assert [event.digest for event in catalogue.events()] == sorted(digests)
