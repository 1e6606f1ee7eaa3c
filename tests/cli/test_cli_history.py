"""pins, mark, unpin, log, show, and the catalogue that may be lost at any time."""

import glob
import os

import builders
import pytest
from builders import Unit

QUESTIONS = (
    ("pins",),
    ("log",),
    ("log", "fast"),
    ("show", "fast"),
    ("show", "FIRST"),
    ("log", "SECOND"),
)


@pytest.fixture
def eventful(ck, pinned):
    """Give a store in which every kind of thing happened."""
    ck.ok("snapshot", "-m", "nightly")
    ck.ok("mark", "fast", "promoted", "--reason", "won", "--evidence", "https://example.org/run")
    ck.ok("pin", pinned.second.aot, "--name", "draft", "--status", "candidate")
    pinned.overwrite()
    ck.ok("restore", "fast")
    ck.ok("unpin", "draft", "--yes")
    return pinned


def answers(ck, place):
    """Return the JSON answers to some questions."""
    words = {"FIRST": place.first.aot, "SECOND": place.second.aot}
    return [ck.json(*(words.get(each, each) for each in question)) for question in QUESTIONS]


def remove_catalogue(place) -> None:
    """Lose the catalogue and its journals."""
    for path in glob.glob(os.fsdecode(place.store) + "/catalogue.sqlite*"):
        os.remove(path)


def test_the_log_has_every_kind_newest_first(ck, eventful):
    """Snapshots, pins, statuses, restores and removed pins are told in one list."""
    events = ck.json("log")["events"]
    assert [event["kind"] for event in events] == [
        "unpin", "restore", "snapshot", "pin", "snapshot", "status", "snapshot", "pin", "snapshot",
    ]  # fmt: skip
    assert [event["sequence"] for event in events] == list(range(9, 0, -1))
    assert all(event["at"].endswith("Z") for event in events)


def test_the_log_of_a_unit_has_what_concerns_it(ck, eventful):
    """Events of another unit, and of the same hash in another root, are left out."""
    other = eventful.top + b"/other"
    builders.build_unit(other, eventful.first, "v1", eventful.clock)
    ck.ok("pin", eventful.first.aot, "--name", "there", "--root", other)
    kinds = [event["kind"] for event in ck.json("log", "fast")["events"]]
    assert kinds == ["restore", "snapshot", "status", "snapshot", "pin", "snapshot"]
    second = ck.json("log", eventful.second.aot)["events"]
    assert [event["kind"] for event in second] == ["unpin", "pin", "snapshot", "snapshot"]
    assert [e["kind"] for e in ck.json("log", "there")["events"]] == ["pin", "snapshot"]


def test_the_log_goes_on_past_a_damaged_record(ck, eventful):
    """A record that rotted after it was indexed is still an event; check names it."""
    for path in glob.glob(os.fsdecode(eventful.store) + "/records/restore/*"):
        os.chmod(path, 0o600)
        builders.write(os.fsencode(path), b"{}", 1)
    kinds = [event["kind"] for event in ck.json("log")["events"]]
    assert "restore" in kinds
    assert "restore" not in [event["kind"] for event in ck.json("log", "fast")["events"]]
    assert ck("check").code == 1


def test_the_log_of_a_snapshot_has_its_marks_and_pins(ck, place):
    """What was said of a snapshot, and pinned from it, is its history."""
    snapshot = ck.json("snapshot")["id"]
    ck.ok("snapshot")
    ck.ok("mark", snapshot, "diagnostic", "--reason", "for the report")
    ck.ok("pin", place.first.aot, "--from", snapshot)
    kinds = [event["kind"] for event in ck.json("log", snapshot)["events"]]
    assert kinds == ["pin", "status", "snapshot"]


def test_the_log_of_a_unit_has_marks_of_its_older_builds(ck, place):
    """A mark on a build that was replaced since is still the unit's."""
    build = ck.json("snapshot")["builds"][-1]
    ck.ok("mark", f"b:{build['build']}", "suspect", "--reason", "slow")
    builders.replace_models(place.root, place.first, "v2", place.clock)
    builders.replace_models(place.root, place.second, "v2", place.clock)
    ck.ok("snapshot")
    assert "status" in {event["kind"] for event in ck.json("log", build["key"])["events"]}


def test_a_lost_catalogue_changes_no_answer(ck, eventful):
    """The next command makes it anew, and every question has the same answer."""
    before = answers(ck, eventful)
    remove_catalogue(eventful)
    assert answers(ck, eventful) == before
    remove_catalogue(eventful)
    counts = ck.json("rebuild")
    assert {key: counts[key] for key in ("records", "snapshots", "pins", "runs")} == {
        "records": 9, "snapshots": 4, "pins": 1, "runs": 0,
    }  # fmt: skip
    assert answers(ck, eventful) == before
    assert ck.ok("rebuild").out == "9 records: 4 snapshots, 1 pin\n"


def test_a_broken_catalogue_is_made_anew(ck, eventful):
    """Garbage in its place is moved aside, not believed."""
    before = answers(ck, eventful)
    remove_catalogue(eventful)
    builders.write(eventful.store + b"/catalogue.sqlite", b"garbage" * 1000, 1)
    assert answers(ck, eventful) == before


def test_removed_pins_free_their_name(ck, pinned):
    """A name may be given again, and means the new pin alone."""
    ck.ok("unpin", "fast", "--yes")
    assert ck("show", "fast").code == 2
    ck.ok("pin", pinned.second.aot, "--name", "fast")
    assert ck.json("show", "fast")["key"] == pinned.second.aot
    assert ck.json("verify")["pins"][0]["key"] == pinned.second.aot


def test_an_unpinned_unit_is_still_stored(ck, pinned):
    """Removing a pin removes no byte."""
    before = pinned.families()
    ck.ok("unpin", "fast", "--yes")
    pinned.overwrite()
    ck.ok("restore", pinned.first.aot)
    assert pinned.families() == before


def test_mark_appends(ck, pinned):
    """Each change has its previous status, and the history is kept."""
    for status in ("suspect", "rejected:performance", "floor"):
        ck.ok("mark", "fast", status, "--reason", f"because {status}")
    history = ck.json("show", "fast")["statuses"]
    assert [(row["previous"], row["status"]) for row in history] == [
        ("rejected:performance", "floor"),
        ("suspect", "rejected:performance"),
        ("floor", "suspect"),
    ]
    assert "suspect -> rejected:performance: because rejected:performance" in ck("show", "fast").out


def test_mark_says_what_it_did(ck, pinned):
    """ref, status and previous are the answer."""
    data = ck.json("mark", "fast", "suspect", "--reason", "r")
    assert (data["ref"], data["status"], data["previous"]) == ("fast", "suspect", "floor")
    text = ck.ok("mark", "fast", "reference", "--reason", "r").out
    assert "marked fast reference (was suspect): r" in text


def test_mark_of_a_build_is_that_build_s(ck, pinned):
    """A partner's build is marked itself, not the model's."""
    aot, partner = ck.json("show", "fast")["unit"]
    ck.ok("mark", f"b:{partner['build']}", "suspect", "--reason", "only this")
    assert ck.json("mark", f"b:{partner['build']}", "diagnostic", "--reason", "r")["previous"]
    assert ck.json("mark", f"b:{aot['build']}", "diagnostic", "--reason", "r")["previous"] is None


def test_mark_of_a_snapshot(ck, place):
    """A snapshot has statuses of its own."""
    snapshot = ck.json("snapshot")["id"]
    assert ck.json("mark", snapshot, "diagnostic", "--reason", "r")["previous"] is None
    assert ck.json("mark", snapshot, "reference", "--reason", "r")["previous"] == "diagnostic"
    assert [row["status"] for row in ck.json("show", snapshot)["statuses"]] == [
        "reference",
        "diagnostic",
    ]


def test_evidence_is_kept(ck, pinned, tmp_path):
    """A file's bytes go into the store, a URL is recorded without its credentials."""
    proof = tmp_path / "bench.json"
    proof.write_text('{"tok_s": 92.1}')
    evidence = ("--reason", "r", "--evidence")
    ck.ok("mark", "fast", "promoted", *evidence, str(proof))
    ck.ok("mark", "fast", "reference", *evidence, "https://example.org/42")
    ck.ok("mark", "fast", "suspect", *evidence, "https://me:secret@example.org/")
    rows = ck.json("show", "fast")["statuses"]
    assert builders.digest(proof.read_bytes()) in builders.stored_digests(pinned.store)
    assert "secret" not in str(rows)
    assert "https://example.org/42" in str(rows[1]["evidence"])
    assert builders.digest(proof.read_bytes()) in str(rows[2]["evidence"])
    assert ck.json("check")["ok"]


@pytest.mark.parametrize(
    ("reference", "kind"),
    [("fast", "pin"), ("SECOND", "unit"), ("BUILD", "build"), ("SNAPSHOT", "snapshot"),
     ("live:FIRST", "live")],
)  # fmt: skip
def test_show_of_every_kind(ck, pinned, reference, kind):
    """A pin, a stored hash, a build, a snapshot and what is live are shown with their families."""
    snapshot = ck.json("snapshot", "-m", "nightly")["id"]
    build = ck.json("show", "fast")["build"]
    words = {"FIRST": pinned.first.aot, "SECOND": pinned.second.aot, "SNAPSHOT": snapshot}
    for word, value in (words | {"BUILD": f"b:{build}"}).items():
        reference = reference.replace(word, value)
    data = ck.json("show", reference)
    assert data["kind"] == kind
    keys = {family["key"] for family in data["unit"]}
    assert keys >= {pinned.second.aot if kind == "unit" else pinned.first.aot}
    text = ck.ok("show", reference).out
    assert all(f"b:{family['build'][:16]}" in text for family in data["unit"])
    if kind == "snapshot":
        assert (data["message"], data["stored_by"]) == ("nightly", "snapshot")
        assert ": nightly" in text
    assert (data["snapshot"] is None) == (kind == "live")


def test_show_live_needs_no_store(ck, newcomer):
    """What stands in the root is shown without any store."""
    data = ck.json("show", f"live:{newcomer.first.aot[:8]}")
    unit = newcomer.first
    assert [family["key"] for family in data["unit"]] == [unit.aot, unit.partner]
    assert data["root"].encode() == newcomer.root
    assert not os.path.exists(newcomer.store)


def test_show_live_says_what_is_broken(ck, place):
    """A damaged family is shown as such."""
    builders.write(place.model(), b"", place.clock.tick(), 0o600)
    data = ck.json("show", f"live:{place.first.aot}")
    assert data["unit"][0]["problems"] == ["empty-model"]


def test_pin_from_a_snapshot(ck, place):
    """What a snapshot holds is pinned although the root went on; no new bytes."""
    snapshot = ck.json("snapshot")
    before = place.families()
    place.overwrite()
    data = ck.json("pin", place.first.aot[:8], "--from", snapshot["id"][:10], "--name", "old")
    build = next(b["build"] for b in snapshot["builds"] if b["key"] == place.first.aot)
    assert (data["build"], data["new_bytes"]) == (build, 0)
    assert ck.json("verify", code=1)["pins"][0]["drift"] == "overwritten"
    ck.ok("restore")
    assert place.families() == before


@pytest.mark.parametrize("mark", ["", "s:"])
def test_pin_from_takes_a_digest_or_a_reference(ck, place, mark):
    """--from takes what log shows, with and without its mark, and the partner's key as hash."""
    snapshot = ck.json("snapshot")["id"].removeprefix("s:")
    dry = ck.json("pin", place.first.partner, "--from", mark + snapshot[:12], "--dry-run")
    assert dry["key"] == place.first.aot
    assert ck.json("pins")["pins"] == []


def test_pin_from_an_unknown_snapshot_or_hash(ck, place):
    """Neither a snapshot nor a hash is guessed."""
    snapshot = ck.json("snapshot")["id"]
    assert ck("pin", place.first.aot, "--from", "s:ffffffff").code == 2
    wrong = place.first.aot[:7] + ("0" if place.first.aot[7] != "0" else "1")
    found = ck("pin", wrong, "--from", snapshot)
    assert (found.code, found.hint) == (2, f"did you mean {place.first.aot[:8]}?")
    assert ck("pin", "xyz", "--from", snapshot).code == 2


def test_pin_from_a_snapshot_of_two_roots(ck, place):
    """The same hash in both roots of a snapshot is ambiguous."""
    other = place.top + b"/other"
    builders.build_unit(other, place.first, "v2", place.clock)
    snapshot = ck.json("snapshot", "--root", place.root, "--root", other)["id"]
    found = ck("pin", place.first.aot, "--from", snapshot, "--json")
    assert (found.code, len(found.data["error"]["candidates"])) == (2, 2)
    assert ck.json("pin", place.second.aot, "--from", snapshot)["root"].encode() == place.root


def test_pins_of_many_units(ck, pinned):
    """The list is newest first, with the drift of each."""
    ck.ok("pin", pinned.second.aot, "--name", "draft", "--status", "candidate")
    pinned.overwrite()
    rows = [(pin["name"], pin["drift"]) for pin in ck.json("pins")["pins"]]
    assert rows == [("draft", "intact"), ("fast", "overwritten")]


def test_pins_of_another_root_have_no_drift(ck, pinned):
    """What is not at hand is not judged."""
    other = pinned.top + b"/other"
    builders.build_unit(other, Unit("e" * 64, "eeeeeeeeee", 1, mega=False), "v1", pinned.clock)
    (pin,) = ck.json("pins", "--root", other)["pins"]
    assert (pin["name"], pin["drift"]) == ("fast", None)
    assert {f["drift"] for f in ck.json("scan", "--root", other)["families"]} == {None}


def test_pins_need_no_root(ck, pinned, monkeypatch):
    """Where no root is known, what is stored is known all the same."""
    for name in ("HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT"):
        monkeypatch.delenv(name)
    assert [pin["drift"] for pin in ck.json("pins")["pins"]] == [None]
    assert ck.json("show", "fast")["root"].encode() == pinned.root
    assert ck("scan").code == 2
