"""Several processes at once on one root and one store; barriers decide who meets whom."""

import json
import multiprocessing
import os
import subprocess
import sys

import pytest
from builders import (
    Clock,
    copy_tree,
    default_root,
    families_of,
    overwrite_unit,
    settle_directories,
)
from faults import at_step
from scenario import NEW, Scenario

from cachekeeper.core.errors import BusyError, KeeperError, RefusedError
from cachekeeper.ops.restore import execute_restore, plan_restore
from cachekeeper.ops.snapshot import execute_snapshot, plan_snapshot

PROCESSES = 8
CONTEXT = multiprocessing.get_context("fork")


def _start(place, *arguments):
    """Start the real command line."""
    return subprocess.Popen(
        [
            sys.executable, "-m", "cachekeeper", *arguments,
            "--store", os.fsdecode(place + b"/store"), "--root", os.fsdecode(place + b"/root"),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_eight_first_snapshots_of_one_root_into_one_new_store(place):
    """All succeed, each with a record of its own, and no object is there twice or half."""
    made = Scenario(place)
    default_root(made.root)
    children = [_start(place, "snapshot", "--json") for _ in range(PROCESSES)]
    answers = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES, answers
    builds = {json.dumps(json.loads(out)["builds"]) for out, _talk in answers}
    assert len(builds) == 1
    records = made.records("snapshot")
    assert [record["sequence"] for record in records] == list(range(1, PROCESSES + 1))
    assert len({record["store"] for record in records}) == 1
    made.check()
    checked = _start(place, "check", "--json")
    out, _talk = checked.communicate()
    assert (checked.returncode, json.loads(out)["ok"]) == (0, True)
    with made.keeper() as keeper, keeper.store.in_use(timeout_s=0):
        made.check_clean()


def _together(*works):
    """Run each piece of work in a process of its own; return what each answered, by its name."""
    return dict(_answers(*works))


def _answers(*works):
    answers = CONTEXT.Queue()
    children = [CONTEXT.Process(target=_answer, args=(work, answers)) for work in works]
    for child in children:
        child.start()
    found = [answers.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    answers.close()
    return found


def _answer(work, answers):
    try:
        answers.put((work.__name__, work()))
    except KeeperError as error:
        answers.put((work.__name__, type(error)))
    except BaseException as error:  # noqa: BLE001  the parent shows it
        answers.put((work.__name__, repr(error)))


@pytest.fixture
def real(place, empty_store):
    """Give an overwritten unit with a floor, and the real look at all processes."""
    made = Scenario(place)
    made.first, _second = default_root(made.root, lean=True)
    copy_tree(empty_store, made.store)
    made.pin(made.first.aot)
    pinned = families_of(made.root)
    overwrite_unit(made.root, made.first, "v2", Clock(1_792_000_000_000_000_000))
    settle_directories(made.root, Clock())
    made.old = {path: made.tree(path) for path in made.first.paths}
    made.new = {path: pinned[path] for path in made.first.paths}
    return made


def test_two_restores_of_one_root_at_once(real):
    """Both planned before either began: one is complete, the other one is too or says busy."""
    together = CONTEXT.Barrier(2, timeout=60)

    def restore():
        with real.keeper() as keeper:
            plan = plan_restore(keeper, (), force=False)
            together.wait()
            return len(execute_restore(keeper, plan).displaced)

    def another():
        return restore()

    found = _together(restore, another)
    assert sorted(map(str, found.values())) == sorted(map(str, (2, BusyError)))
    assert set(real.sides().values()) == {NEW}
    assert len(real.records("restore")) == 1
    real.check_nothing_lost()
    real.check()
    real.check_clean()


@pytest.mark.parametrize("timeout_s", [0, 60])
@pytest.mark.parametrize("step", ["create", "exchange", "unlink"])
def test_a_snapshot_in_the_middle_of_a_restore(real, step, timeout_s):
    """It waits, or says busy; what it holds is the old unit or the new one, never half of each."""
    begun, done = CONTEXT.Event(), CONTEXT.Event()

    def restore():
        def pause():
            begun.set()
            if timeout_s == 0:
                assert done.wait(60)

        with real.keeper() as keeper, at_step(step, b"/root/", pause):
            result = execute_restore(keeper, plan_restore(keeper, (), force=False))
        return len(result.displaced)

    def snapshot():
        assert begun.wait(60)
        try:
            with real.keeper(lock_timeout_s=timeout_s) as keeper:
                return execute_snapshot(keeper, plan_snapshot(keeper)).record.digest
        finally:
            done.set()

    found = _together(restore, snapshot)
    assert found["restore"] == 2
    assert set(real.sides().values()) == {NEW}
    if timeout_s == 0:
        assert found["snapshot"] is BusyError
    else:
        builds = {f["path"].encode(): f["build"] for f in _families(real, found["snapshot"])}
        pinned = {f["path"].encode(): f["build"] for f in real.records("pin")[0]["body"]["unit"]}
        assert {path: builds[path] for path in pinned} == pinned
    real.check()
    real.check_clean()


def _families(made, digest):
    """Return the families in the snapshot with this digest."""
    top = made.store + b"/records/snapshot/"
    name = next(name for name in os.listdir(top) if digest.encode() in name)
    with open(top + name, "rb") as file:
        return json.load(file)["body"]["roots"][0]["families"]


def test_readers_of_one_root_do_not_wait_for_each_other(real):
    """Snapshots, verify and scan share the root and the store, each waiting for no one."""
    together = CONTEXT.Barrier(4, timeout=60)

    def snapshot():
        with real.keeper(lock_timeout_s=0) as keeper:
            plan = plan_snapshot(keeper)
            together.wait()
            return bool(execute_snapshot(keeper, plan).record)

    def again():
        return snapshot()

    def verify():
        together.wait()
        return real.verify(lock_timeout_s=0).ok

    def scan():
        together.wait()
        return len(real.scan(lock_timeout_s=0))

    found = _together(snapshot, again, verify, scan)
    assert found == {"snapshot": True, "again": True, "verify": False, "scan": 1}
    real.check()


def test_eight_pins_of_one_name_at_once(real):
    """One of them is made, the others are told that the name is taken."""
    together = CONTEXT.Barrier(PROCESSES, timeout=60)

    def pin():
        together.wait()
        real.pin(real.first.aot, "same", status="candidate")
        return "pinned"

    found = [answer for _name, answer in _answers(*[pin] * PROCESSES)]
    assert sorted(map(str, found)) == sorted(map(str, ["pinned", *[RefusedError] * 7]))
    assert [record["body"]["name"] for record in real.records("pin")] == ["fast", "same"]
    real.check()
