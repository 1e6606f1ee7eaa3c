"""Pins, their current status, and what happened to them."""

import pytest
from builders_records import ROOT, family, key_of, root

from cachekeeper.catalogue.rows import PinnedFamily, PinRow, StatusRow


@pytest.fixture
def snapshot(source):
    return source.snapshot(root([family(1), family(2)]))


def _statuses(catalogue):
    return {pin.name: pin.status for pin in catalogue.pins(include_removed=True)}


def test_a_pin_has_its_whole_unit_in_order(catalogue, source, snapshot):
    unit = (family(2), family(1, kind="compile"))
    pin = source.pin("fast", snapshot, *unit)
    names = ("kind", "key", "path", "build", "attributes")
    families = tuple(PinnedFamily(*(f[name] for name in names)) for f in unit)
    expected = PinRow(
        pin.digest, 2, pin.at, "fast", key_of(2), ROOT, "floor", "fast", True, snapshot.digest,
        False, families,
    )  # fmt: skip
    assert catalogue.pins() == (expected,)
    assert catalogue.pin_named("fast") == expected


def test_a_store_without_pins(catalogue):
    assert catalogue.pins() == ()
    assert catalogue.pin_named("fast") is None


def test_pins_are_listed_newest_first(catalogue, source, snapshot):
    for name in "bca":
        source.pin(name, snapshot, family(name))
    assert [pin.name for pin in catalogue.pins()] == ["a", "c", "b"]


def test_a_cold_build_is_unsettled(catalogue, source, snapshot):
    source.pin("cold", snapshot, family(1), settled=False)
    assert catalogue.pin_named("cold").settled is False


def test_a_pin_without_families_is_shown_all_the_same(catalogue, source, snapshot):
    source.pin("none", snapshot)
    assert catalogue.pin_named("none").families == ()


def test_the_latest_status_counts(catalogue, source, snapshot):
    pin = source.pin("fast", snapshot, family(1))
    other = source.pin("other", snapshot, family(2))
    source.mark("pin", pin.digest, "suspect")
    source.mark("pin", pin.digest, "rejected:performance")
    assert _statuses(catalogue) == {"fast": "rejected:performance", "other": "floor"}
    source.mark("pin", other.digest, "promoted")
    assert _statuses(catalogue) == {"fast": "rejected:performance", "other": "promoted"}
    assert catalogue.pin_named("other").reason == "fast"


def test_the_status_of_something_else_is_not_the_pin_s(catalogue, source, snapshot):
    pin = source.pin("fast", snapshot, family(1))
    source.mark("build", pin.digest, "suspect")
    source.mark("pin", family(1)["build"], "suspect")
    assert _statuses(catalogue) == {"fast": "floor"}


def test_a_removed_pin_is_shown_only_when_asked_for(catalogue, source, snapshot):
    gone = source.pin("fast", snapshot, family(1))
    source.unpin(gone)
    assert catalogue.pins() == ()
    assert catalogue.pin_named("fast") is None
    (shown,) = catalogue.pins(include_removed=True)
    assert (shown.digest, shown.removed) == (gone.digest, True)


def test_a_name_can_be_given_again(catalogue, source, snapshot):
    source.unpin(source.pin("fast", snapshot, family(1)))
    again = source.pin("fast", snapshot, family(2))
    assert catalogue.pin_named("fast").digest == again.digest
    assert [pin.removed for pin in catalogue.pins(include_removed=True)] == [False, True]


def test_of_two_pins_of_one_name_the_newest_is_meant(catalogue, source, snapshot):
    source.pin("fast", snapshot, family(1))
    newest = source.pin("fast", snapshot, family(2))
    assert catalogue.pin_named("fast").digest == newest.digest


def test_statuses_are_a_history(catalogue, source, snapshot):
    build = family(1)["build"]
    first = source.mark("build", build, "candidate", evidence="/tmp/bench.json")
    second = source.mark("build", build, "suspect", previous="candidate", evidence={"tok_s": 9.5})
    source.mark("snapshot", build, "diagnostic")
    assert catalogue.statuses_of("build", build) == (
        StatusRow(
            second.digest, 3, second.at, "c158", "build", build, "suspect", "candidate", "measured",
            '{"tok_s": 9.5}',
        ),
        StatusRow(
            first.digest, 2, first.at, "c158", "build", build, "candidate", None, "measured",
            "/tmp/bench.json",
        ),
    )  # fmt: skip
    assert catalogue.statuses_of("build", snapshot.digest) == ()


def test_names_that_are_not_utf8_are_found_as_they_were_given(catalogue, source, snapshot):
    source.pin("caf\udce9", snapshot, family(1))
    source.mark("run", "caf\udce9", "suspect")
    assert catalogue.pin_named("caf\udce9").name == "caf\\udce9"
    assert len(catalogue.statuses_of("run", "caf\udce9")) == 1
