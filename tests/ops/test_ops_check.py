"""check: every way in which a store can be broken has a name."""

import os

import builders
import pytest

from cachekeeper.core.record import record_bytes
from cachekeeper.ops.check import check
from cachekeeper.ops.mark import execute_mark, plan_mark
from cachekeeper.ops.pin import PinOptions, execute_pin, plan_pin
from cachekeeper.ops.unpin import execute_unpin, plan_unpin

FIRST = builders.unit_of("first")


@pytest.fixture
def pinned(keeper):
    """Give a keeper with one pin."""
    execute_pin(keeper, plan_pin(keeper, FIRST.aot, PinOptions(name="fast")))
    return keeper


def problems(keeper):
    return [(each.code, each.subject) for each in check(keeper).problems]


def add_record(keeper, kind, sequence, body):
    """Write a record with a number of our choice, whole and with its right name."""
    at = "2026-11-30T11:22:33.123456Z"
    data = record_bytes(kind, sequence, at, keeper.store.store_id, body)
    name = b"%012d-%s.json" % (sequence, builders.digest(data).encode())
    builders.write(os.path.join(keeper.store.path, b"records", kind.encode(), name), data, 1)
    return builders.digest(data)


def test_a_whole_store_has_no_problem(pinned):
    """Objects and records are counted."""
    result = check(pinned)
    assert (result.problems, result.records) == ((), 2)
    assert result.objects == len(builders.stored_digests(pinned.store.path))


def test_a_number_given_twice(pinned):
    """Two records of one number are two histories in one."""
    add_record(pinned, "unpin", 2, {"name": "x", "pin": "0" * 64})
    assert [code for code, _subject in problems(pinned)] == ["record-twice"]


def test_a_gap_in_the_numbers(pinned):
    """A record that is not there any more leaves its number."""
    add_record(pinned, "unpin", 4, {"name": "x", "pin": "0" * 64})
    assert problems(pinned) == [("missing-record", "3")]
    add_record(pinned, "unpin", 9, {"name": "x", "pin": "0" * 64})
    assert problems(pinned) == [("missing-record", "3"), ("missing-record", "5 to 8")]


def test_a_record_under_another_number(pinned):
    """A renamed record is not the one its name says."""
    folder = os.path.join(pinned.store.path, b"records", b"pin")
    (name,) = os.listdir(folder)
    os.rename(os.path.join(folder, name), os.path.join(folder, b"000000000003" + name[12:]))
    found = problems(pinned)
    assert ("missing-record", "2") in found
    assert "damaged-record" in {code for code, _subject in found}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("pin", {"name": "x"}),
        ("pin", {"name": "x", "unit": [{"kind": "aot"}]}),
        ("snapshot", {"roots": [{"path": "/x", "families": [{"path": "/etc"}]}]}),
        ("snapshot", {"roots": 7}),
        ("status", {"ref": "x", "evidence": {"digest": "zz"}}),
        ("status", {"ref": "x", "evidence": None}),
    ],
)
def test_a_record_of_another_shape(pinned, kind, body):
    """A whole record that does not say what it must is damaged."""
    digest = add_record(pinned, kind, 3, body)
    assert ("damaged-record", f"{kind} {digest[:16]}") in problems(pinned)


@pytest.mark.parametrize("which", ["build", "attributes"])
def test_a_lost_list(pinned, which):
    """Without one of its lists a family is hit as a whole."""
    body = pinned.store.records.read("pin", pinned.catalogue.pins()[0].digest).body
    os.remove(pinned.store.objects.path(body["unit"][0][which]))
    (problem,) = check(pinned).problems
    assert (problem.code, problem.pins) == ("missing-object", ("fast",))
    assert problem.detail.endswith("manifest" if which == "build" else "attributes")


def test_a_removed_pin_is_hit_no_more(pinned):
    """Its snapshots still are."""
    model = builders.tree_of(pinned.settings.roots[0])[FIRST.aot_path + b"/rank_0_0/model"]
    os.remove(pinned.store.objects.path(builders.digest(model.content)))
    execute_unpin(pinned, plan_unpin(pinned, "fast"))
    (problem,) = check(pinned).problems
    assert (problem.pins, len(problem.snapshots)) == ((), 1)


def test_lost_evidence(pinned, tmp_path):
    """A file that was kept as evidence is looked after as well."""
    proof = tmp_path / "bench.json"
    proof.write_text("{}")
    execute_mark(pinned, plan_mark(pinned, "fast", "promoted", "won", str(proof)))
    assert problems(pinned) == []
    os.remove(pinned.store.objects.path(builders.digest(b"{}")))
    (problem,) = check(pinned).problems
    assert (problem.code, problem.detail) == ("missing-object", "evidence of fast")
