"""What a reference means where the command line is too coarse to tell."""

import os

import builders
import pytest
from builders import Unit

from cachekeeper.core.errors import AmbiguousReferenceError, UnknownReferenceError, UsageError
from cachekeeper.keeper.keeper import Keeper, Settings
from cachekeeper.keeper.resolve import known_names, resolve, unit_in_snapshot, unreadable_pins
from cachekeeper.ops.pin import PinOptions, execute_pin, plan_pin
from cachekeeper.ops.snapshot import execute_snapshot, plan_snapshot

FIRST, SECOND = builders.unit_of("first"), builders.unit_of("second", 1, mega=True)


@pytest.fixture
def snapshot(keeper):
    """Give a keeper with one snapshot, and its digest."""
    return execute_snapshot(keeper, plan_snapshot(keeper)).record.digest


def pin(keeper, unit, name):
    return execute_pin(keeper, plan_pin(keeper, unit.aot, PinOptions(name=name))).record


def test_content_knows_its_families_and_links(keeper, snapshot):
    """A stored unit has its aot family first, then its partner, with the link's evidence."""
    content = resolve(keeper, FIRST.aot)
    assert [family.key for family in content.families] == [FIRST.aot, FIRST.partner]
    assert [(link.aot, link.compile, link.source) for link in content.links] == [
        (FIRST.aot, FIRST.partner, "handles")
    ]
    assert (content.exact, content.snapshot, content.pin) == (False, snapshot, None)
    assert content.build == content.families[0].build


def test_builds_and_snapshots_are_exact(keeper, snapshot):
    """Where a content is named, growth is not left standing."""
    content = resolve(keeper, f"s:{snapshot}")
    assert (content.exact, content.kind, content.key) == (True, "snapshot", "")
    build = resolve(keeper, f"b:{content.families[0].build}")
    assert (build.exact, build.kind) == (True, "build")


def test_the_newest_content_is_meant(keeper, root, snapshot):
    """A hash without a pin is what was stored last."""
    clock = builders.Clock(1_795_000_000_000_000_000)
    builders.replace_models(root.real, FIRST, "v2", clock)
    newer = execute_snapshot(keeper, plan_snapshot(keeper)).record.digest
    assert resolve(keeper, FIRST.aot).snapshot == newer
    old = unit_in_snapshot(keeper, snapshot, root.identity, FIRST.aot)
    assert resolve(keeper, f"b:{old.build}").snapshot == snapshot


def test_a_companion_is_no_bare_name(keeper, snapshot):
    """What is not named by hex is found by its build alone."""
    with pytest.raises(UnknownReferenceError):
        resolve(keeper, "modelinfos")
    (place,) = [f for f in resolve(keeper, f"s:{snapshot}").families if f.key == "modelinfos"]
    found = resolve(keeper, f"b:{place.build}")
    assert [family.key for family in found.families] == ["modelinfos"]


def test_what_is_in_no_snapshot_is_none(keeper, root, snapshot):
    """Neither another root's nor an unknown key's unit is invented."""
    assert unit_in_snapshot(keeper, snapshot, "/elsewhere", FIRST.aot) is None
    assert unit_in_snapshot(keeper, snapshot, root.identity, "f" * 64) is None


def test_a_unit_without_its_model_is_its_family(keeper, root):
    """A compile family alone is stored and found as such."""
    builders.remove_tree(root.real + b"/" + FIRST.aot_path)
    execute_snapshot(keeper, plan_snapshot(keeper))
    content = resolve(keeper, FIRST.partner)
    assert (content.kind, [family.key for family in content.families]) == (
        "compile",
        [FIRST.partner],
    )


def test_known_names_are_pins_and_keys(keeper):
    """Everything that a bare word could mean is there for the nearest."""
    pin(keeper, FIRST, "fast")
    assert {"fast", FIRST.aot, FIRST.partner} <= set(known_names(keeper))


def test_candidates_of_two_units(keeper, root):
    """A prefix that two pins fit names both with their roots."""
    twin = Unit(FIRST.aot[:10] + "0" * 54, "0123456789", 1, mega=False)
    builders.build_unit(root.real, twin, "v1", builders.Clock(1_795_000_000_000_000_000))
    pin(keeper, FIRST, "fast")
    pin(keeper, twin, "twin")
    with pytest.raises(AmbiguousReferenceError) as caught:
        resolve(keeper, FIRST.aot[:8])
    where = os.fsdecode(root.real)
    assert caught.value.candidates == (
        f"fast ({FIRST.aot[:16]} in {where})",
        f"twin ({twin.aot[:16]} in {where})",
    )


def test_live_and_runs_are_not_stored(keeper, snapshot):
    """Both are refused with what could be meant instead."""
    with pytest.raises(UsageError, match="stands in the root"):
        resolve(keeper, f"live:{FIRST.aot}")
    with pytest.raises(UnknownReferenceError, match="no run"):
        resolve(keeper, "r:nightly")


def test_unreadable_pins_are_named(keeper, top):
    """A pin whose record is damaged is in no list, and is not forgotten."""
    record = pin(keeper, FIRST, "fast")
    path = keeper.store.records.path("pin", record.digest)
    os.chmod(path, 0o600)
    builders.write(path, b"{}", 1)
    with Keeper(Settings(top + b"/store", keeper.settings.roots)) as fresh:
        os.remove(fresh.store.catalogue_path)
        (sentence,) = unreadable_pins(fresh)
    assert "pin record cannot be read" in sentence
