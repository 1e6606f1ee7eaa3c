"""Other commands between two steps of this one: complete, or BusyError, never half."""

import json
import os

import pytest
from builders import families_of, read, remove_tree, tree_of, working_litter, write
from faults import at_step, kill_at, steps_of
from scenario import GONE, NEW, OLD

from cachekeeper.core.errors import BusyError, KeeperError, RefusedError
from cachekeeper.fs.locks import range_lock
from cachekeeper.ops.mark import execute_mark, plan_mark
from cachekeeper.ops.pin import PinOptions, execute_pin, plan_pin
from cachekeeper.ops.restore import execute_restore, plan_restore
from cachekeeper.ops.snapshot import execute_snapshot, plan_snapshot

INTENT = b"intent.json"


def _killed_restore(made):
    """Return a restore that dies between its exchanges, to be run while another command waits."""
    plan = made.plan()
    steps = steps_of(lambda: made.execute(plan))
    made.reset()
    number = next(n for n, (name, _path) in enumerate(steps) if name == "exchange")

    def run():
        assert kill_at(number + 1, lambda: made.execute(plan))
        assert set(made.sides().values()) == {OLD, NEW}

    return run


def test_a_restore_refuses_a_root_that_changed_since_its_plan(overwritten):
    """Another restore of the same root in between: the older plan must not mix in its families."""
    made = overwritten
    first, second = made.plan(), made.plan()
    made.execute(first)
    with pytest.raises(BusyError):
        made.execute(second)
    assert set(made.sides().values()) == {NEW}
    made.check_clean()


def test_a_restore_of_one_family_refuses_when_the_other_one_changed(overwritten):
    """A family that stood right in the plan is no step of it, and may be wrong by now."""
    made = overwritten
    made.restore()
    build = made.records("restore")[0]["body"]["families"][0]["displaced"]
    path = made.root + b"/" + made.first.partner_path + b"/rank_0_0/backbone/computation_graph.py"
    write(path, b"other", 1)
    plan = made.plan()
    assert [step.family.path for step in plan.roots[0].steps] == [made.first.partner_path]
    made.restore(f"b:{build}")
    with pytest.raises(BusyError):
        made.execute(plan)
    made.check_clean()
    made.restore()
    assert set(made.sides().values()) == {NEW}


def test_a_restore_refuses_a_root_where_one_was_killed_since_its_plan(overwritten):
    """It would exchange what the killed one waits to exchange, and neither could be finished."""
    made = overwritten
    plan = made.plan()
    _killed_restore(made)()
    with pytest.raises(BusyError):
        made.execute(plan)
    made.restore()
    assert set(made.sides().values()) == {NEW}
    made.check_clean()


@pytest.mark.parametrize("command", ["snapshot", "pin"])
def test_nothing_torn_is_kept_as_if_it_were_whole(overwritten, command):
    """A restore that is killed after a command looked for one is found before it is stored."""
    made = overwritten
    kill = _killed_restore(made)
    count = made.record_count()
    with made.keeper() as keeper:
        if command == "pin":
            plan = plan_pin(keeper, made.first.aot, PinOptions(name="other", status="candidate"))
        else:
            plan = plan_snapshot(keeper)
        kill()
        count = made.record_count()
        with pytest.raises(BusyError):
            (execute_pin if command == "pin" else execute_snapshot)(keeper, plan)
    assert made.record_count() == count


def test_a_snapshot_holds_a_family_that_a_restore_brought_since_its_plan(without_partner):
    """A partner that came back between the plan and the reading belongs to the snapshot."""
    made = without_partner
    with made.keeper() as keeper:
        plan = plan_snapshot(keeper)
        made.restore()
        result = execute_snapshot(keeper, plan)
    keys = {family.key for _root, family in result.families}
    assert {made.first.aot, made.first.partner} <= keys
    (root,) = made.records("snapshot")[-1]["body"]["roots"]
    assert made.first.partner in {link["compile"] for link in root["links"]}


def test_a_pin_refuses_a_unit_that_a_restore_changed_since_its_plan(without_partner):
    """A pin of one family of two would be no floor."""
    made = without_partner
    with made.keeper() as keeper:
        options = PinOptions(name="other", status="candidate")
        plan = plan_pin(keeper, made.first.aot, options)
        made.restore()
        with pytest.raises(BusyError):
            execute_pin(keeper, plan)


def test_a_pin_into_a_new_store_recovers_first(overwritten):
    """The intent knows its own store; a torn unit must not become the first pin of another."""
    made = overwritten
    made.tear()
    with made.keeper(store=made.top + b"/another") as keeper:
        execute_pin(keeper, plan_pin(keeper, made.first.aot, PinOptions(name="first")))
    assert set(made.sides().values()) == {NEW}
    made.check_clean()


def test_a_unit_torn_by_a_store_that_is_gone_is_named_and_not_kept(overwritten):
    """Without the intent's store nothing can be finished: looking names it, keeping refuses."""
    made = overwritten
    made.tear()
    os.rename(made.store, made.top + b"/moved")
    assert not made.verify().ok
    (scanned,) = made.scan()
    assert any("is new" in warning for warning in scanned.warnings)
    for keep in (made.snapshot, lambda: made.pin(made.first.aot)):
        with pytest.raises(RefusedError):
            keep()
    os.rename(made.top + b"/moved", made.store)
    made.recover()
    assert set(made.sides().values()) == {NEW}


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 99}'])
def test_an_intent_that_cannot_be_read_is_named(overwritten, data):
    """Looking goes on and names it; what changes something refuses; nothing is removed."""
    made = overwritten
    made.tear()
    (name,) = working_litter(made.root)
    path = made.root + b"/" + name + b"/" + INTENT
    whole = read(path)
    write(path, data, 1)
    before = tree_of(made.root)
    assert not made.verify().ok
    (scanned,) = made.scan()
    assert any(INTENT.decode() in warning for warning in scanned.warnings)
    with pytest.raises(KeeperError):
        made.snapshot()
    assert tree_of(made.root) == before
    write(path, whole, 1)
    made.recover()
    made.check_clean()


@pytest.mark.parametrize("name", [b"notes", b"old", b"\xff\xfe", b"0" * 31, b"g" * 32])
def test_what_people_keep_under_a_similar_name_is_not_removed(overwritten, name):
    """Only directories with the name of a restore are ours, not what someone moved aside."""
    made = overwritten
    path = made.root + b"/.cachekeeper-" + name
    write(path + b"/precious", b"mine", 1)
    made.snapshot()
    made.restore()
    assert read(path + b"/precious") == b"mine"


def test_a_damaged_record_of_another_restore_does_not_block_recovery(overwritten):
    """Recovery looks for the record of its own restore, and check names the damaged one."""
    made = overwritten
    made.restore()
    displaced = made.records("restore")[0]["body"]["families"]
    plan = made.plan(*(f"b:{item['displaced']}" for item in displaced))
    steps = steps_of(lambda: made.execute(plan))
    made.restore()
    number = next(n for n, (name, _path) in enumerate(steps) if name == "exchange")
    plan = made.plan(*(f"b:{item['displaced']}" for item in displaced))
    assert kill_at(number + 1, lambda: made.execute(plan))
    for top, _directories, names in os.walk(made.store + b"/records/restore"):
        for name in names:
            write(top + b"/" + name, b"{}", 1)
    made.recover()
    assert NEW not in made.sides().values()
    assert GONE not in made.sides().values()
    made.check_clean()


def test_recovery_waits_for_whoever_holds_the_store_alone(overwritten):
    """Garbage collection would not see what a recovery puts into the store meanwhile."""
    made = overwritten
    made.tear()
    with (
        range_lock(made.store + b"/lock", 0, exclusive=True, timeout_s=0),
        made.keeper(lock_timeout_s=0) as keeper,
        pytest.raises(BusyError),
    ):
        plan_snapshot(keeper)
    made.recover()
    assert set(made.sides().values()) == {NEW}


def test_two_pins_at_once_do_not_take_one_name(pinned):
    """The name and the floor are looked for again when the number of the record is given."""
    made = pinned

    def other():
        made.pin(made.second.aot, "speed")

    with made.keeper() as keeper:
        plan = plan_pin(keeper, made.second.aot, PinOptions(name="speed"))
        with at_step("syncfs", b"", other) as done, pytest.raises(RefusedError):
            execute_pin(keeper, plan)
    assert done
    assert [record["body"]["name"] for record in made.records("pin")] == ["fast", "speed"]


def test_two_marks_at_once_do_not_make_two_floors(pinned):
    """At most one floor a unit and root, also where two candidates are promoted at once."""
    made = pinned
    made.pin(made.second.aot, "one", status="candidate")
    made.pin(made.second.aot, "two", status="candidate")

    def other():
        with made.keeper() as keeper:
            execute_mark(keeper, plan_mark(keeper, "two", "floor", "faster", None))

    write(made.top + b"/numbers.json", b"{}", 1)
    with made.keeper() as keeper:
        plan = plan_mark(keeper, "one", "floor", "fast", os.fsdecode(made.top + b"/numbers.json"))
        with at_step("syncfs", b"", other) as done, pytest.raises(RefusedError):
            execute_mark(keeper, plan)
    assert done
    assert [record["body"]["ref"] for record in made.records("status")] == ["two"]


def test_the_same_root_named_twice_is_restored_once(overwritten):
    """`--root` twice, or once by way of a link, is one root."""
    made = overwritten
    os.symlink(made.root, made.top + b"/alias")
    with made.keeper(roots=(made.root, made.top + b"/alias", made.root)) as keeper:
        execute_restore(keeper, plan_restore(keeper, (), force=False))
    assert set(made.sides().values()) == {NEW}
    assert len(made.records("restore")) == 1


def test_a_restore_into_a_read_only_leftover_is_possible_to_look_at(overwritten):
    """A stopped staging, which is no torn unit, is no finding for those who look."""
    made = overwritten
    plan = made.plan()
    assert kill_at(12, lambda: made.execute(plan))
    assert working_litter(made.root)
    (scanned,) = made.scan(store=None)
    assert not any("killed" in warning for warning in scanned.warnings)
    assert families_of(made.root) == {**made.others, **made.old}
    remove_tree(made.root + b"/" + working_litter(made.root)[0])
    assert json.dumps(made.records("pin"))
