"""Plans are looked at again before they are carried out: what came between them counts."""

import os

import builders
import pytest

from cachekeeper.core.errors import BusyError, RefusedError, UsageError
from cachekeeper.ops.pin import PinOptions, execute_pin, plan_pin, preview_pin
from cachekeeper.ops.pins import pin_drifts, pin_rows
from cachekeeper.ops.restore import execute_restore, plan_restore
from cachekeeper.ops.scan import scan
from cachekeeper.ops.snapshot import execute_snapshot, plan_snapshot, preview_snapshot
from cachekeeper.ops.unpin import execute_unpin, plan_unpin
from cachekeeper.ops.verify import verify
from cachekeeper.probe.live_users import LiveUsers

FIRST, SECOND = builders.unit_of("first"), builders.unit_of("second", 1, mega=True)
CLOCK_NS = 1_795_000_000_000_000_000


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Leave out the look at all processes of the machine, which no test here is about."""
    monkeypatch.setattr(
        "cachekeeper.ops.restore.find_live_users", lambda _search: LiveUsers((), ())
    )


@pytest.fixture
def clock():
    return builders.Clock(CLOCK_NS)


def pin(keeper, key=FIRST.aot, **options):
    return execute_pin(keeper, plan_pin(keeper, key, PinOptions(**options)))


def test_a_plan_writes_nothing(keeper):
    """Planning and previewing leave the store as it was."""
    before = builders.tree_of(keeper.store.path + b"/records")
    preview_snapshot(keeper, plan_snapshot(keeper))
    preview_pin(keeper, plan_pin(keeper, FIRST.aot, PinOptions()))
    assert builders.tree_of(keeper.store.path + b"/records") == before
    assert builders.stored_digests(keeper.store.path) == set()


def test_two_plans_of_one_floor(keeper):
    """The second of two planned floors is refused when it is carried out."""
    plans = [plan_pin(keeper, FIRST.aot, PinOptions(name=name)) for name in ("one", "two")]
    execute_pin(keeper, plans[0])
    with pytest.raises(RefusedError, match="already has a floor"):
        execute_pin(keeper, plans[1])
    assert [row.name for row in pin_rows(keeper)] == ["one"]


def test_two_plans_of_one_name(keeper):
    """So is the second pin of one name."""
    plans = [plan_pin(keeper, unit.aot, PinOptions(name="fast")) for unit in (FIRST, SECOND)]
    execute_pin(keeper, plans[0])
    with pytest.raises(RefusedError, match="is taken"):
        execute_pin(keeper, plans[1])


def test_a_partner_that_came_meanwhile(keeper, root, clock):
    """A unit that is another one than planned is not pinned."""
    plan = plan_pin(keeper, FIRST.aot, PinOptions())
    builders.rebuild(root.real, FIRST, "v2", clock)
    with pytest.raises(BusyError, match="just now"):
        execute_pin(keeper, plan)
    assert pin_rows(keeper) == ()


def test_what_came_after_the_plan_is_in_the_snapshot(keeper, root, clock):
    """A family that appeared since the plan is stored as well."""
    plan = plan_snapshot(keeper)
    builders.write(root.real + b"/deep_gemm/kernel", b"x", clock.tick())
    paths = {family.path for _root, family in execute_snapshot(keeper, plan).families}
    assert b"deep_gemm" in paths


def test_a_damaged_unit_is_refused_and_nothing_recorded(keeper, root):
    """Refusing leaves no record; the bytes that were read may stay."""
    os.truncate(builders.model_path(root.real, FIRST, 0), 9)
    with pytest.raises(RefusedError, match="is damaged"):
        pin(keeper)
    with pytest.raises(RefusedError, match="is damaged"):
        preview_pin(keeper, plan_pin(keeper, FIRST.aot, PinOptions()))
    assert list(keeper.store.records.names()) == []


def test_warnings_of_a_pin_are_told(keeper, root, top):
    """A unit with a doubt is pinned, and the doubt is said."""
    builders.copy_tree(root.real, top + b"/moved")
    builders.remove_tree(root.real)
    os.rename(top + b"/moved", root.real)
    os.mkfifo(root.real + b"/" + FIRST.aot_path + b"/pipe")
    (note,) = pin(keeper).notes
    assert note.endswith("pipe: not kept (special-file)")


def test_unpinning_is_a_record(keeper):
    """A removed pin is no pin, and may be planned no second time."""
    pin(keeper, name="fast")
    execute_unpin(keeper, plan_unpin(keeper, "fast"))
    assert pin_rows(keeper) == ()
    with pytest.raises(UsageError, match="no pin is named 'fast'"):
        plan_unpin(keeper, "fast")


def test_drifts_are_of_the_roots_at_hand(keeper, root):
    """A pin has its drift by its record; a root that is gone is gone."""
    record = pin(keeper).record
    assert pin_drifts(keeper) == {record.digest: "intact"}
    builders.remove_tree(root.real)
    assert pin_drifts(keeper) == {record.digest: "gone"}


def test_the_newest_pin_s_drift_stands(keeper, root, clock):
    """A family with two pins has both names, and the drift against the newer one."""
    pin(keeper, name="old", status="reference")
    builders.replace_models(root.real, FIRST, "v2", clock)
    pin(keeper, name="new")
    (scanned,) = scan(keeper)
    family = next(one for one in scanned.families if one.place.key == FIRST.aot)
    assert (set(family.pins), family.drift) == ({"old", "new"}, "intact")


def test_a_plan_is_carried_out_once(keeper, root, clock):
    """A restore plan is of the root as it was seen: after it was carried out that is another."""
    pin(keeper, name="fast")
    expected = builders.families_of(root.real)
    builders.replace_models(root.real, FIRST, "v2", clock)
    plan = plan_restore(keeper, (), force=False)
    execute_restore(keeper, plan)
    assert builders.families_of(root.real) == expected
    with pytest.raises(BusyError, match="changed since the restore was planned"):
        execute_restore(keeper, plan)
    assert builders.families_of(root.real) == expected


def test_a_writer_between_plan_and_restore(keeper, root, clock):
    """What a writer left there meanwhile is neither displaced nor mixed: the root is busy."""
    pin(keeper, name="fast")
    builders.replace_models(root.real, FIRST, "v2", clock)
    plan = plan_restore(keeper, (), force=False)
    builders.replace_models(root.real, FIRST, "v3", clock)
    late = builders.families_of(root.real)
    with pytest.raises(BusyError, match="changed since the restore was planned"):
        execute_restore(keeper, plan)
    assert builders.families_of(root.real) == late
    assert builders.working_litter(root.real) == []


def test_verify_reads_named_units_only(keeper):
    """With references only their families are looked at."""
    pin(keeper, name="fast")
    assert verify(keeper, ("fast",)).checked == 2
    assert verify(keeper, ()).checked == 6
