"""A long life of one root and one store, against a model: whatever happens, nothing is lost.

Rules are what vLLM, its owner and accidents do; the model remembers each tree that was pinned and
each content that a restore displaced. Kills may strike at any step of any command.
"""

import os
import shutil
import tempfile
from contextlib import suppress

from builders import (
    Clock,
    build_unit,
    content_of,
    copy_tree,
    digests_of,
    families_of,
    overwrite_unit,
    rebuild,
    remove_tree,
    stored_digests,
    unit_of,
    warm_load,
    working_litter,
    write,
)
from faults import kill_at
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from scenario import Scenario

from cachekeeper.core.errors import UsageError
from cachekeeper.ops.mark import execute_mark, plan_mark
from cachekeeper.ops.rebuild import rebuild as rebuild_catalogue
from cachekeeper.ops.unpin import execute_unpin, plan_unpin

UNITS = (unit_of("one", 2, lean=True), unit_of("two", 1, mega=True, lean=True))
STATUSES = ("candidate", "reference", "suspect")
STEPS = st.integers(0, 120)


def without_temporaries(tree):
    """Return a tree as a restore puts it back: files being written are never put back."""
    return {path: data for path, data in content_of(tree).items() if not path.endswith(b".tmp")}


class Life(RuleBasedStateMachine):
    """`pins` are exact trees by name; `displaced` are contents by build id."""

    empty_store: bytes
    place: bytes

    def __init__(self):
        super().__init__()
        self.made = Scenario(tempfile.mkdtemp(dir=self.place))
        self.clock = Clock()
        self.count = 0
        self.pins: dict[str, dict] = {}
        self.displaced: dict[str, dict] = {}
        self.seen_restores = 0

    def teardown(self):
        """At the end of each life every pin and all displaced content is put back and compared."""
        try:
            self.settle()
            for name, trees in self.pins.items():
                self.made.restore(name)
                for path, tree in trees.items():
                    self.check_restored(path, tree)
            for build, (path, content) in self.displaced.items():
                self.made.restore(f"b:{build}")
                assert without_temporaries(self.made.tree(path)) == content
            self.made.check()
        finally:
            shutil.rmtree(self.made.top)

    def check_restored(self, path, tree):
        """The tree is exact; a tuning record may be what a warm load wrote since."""
        now, tree = (
            {name: node for name, node in one.items() if not name.endswith(b".tmp")}
            for one in (self.made.tree(path), tree)
        )
        mutable = {name for name in tree if name.endswith(b".best_config")}
        if any(now.get(name) != tree[name] for name in mutable):
            assert now.keys() == tree.keys()
            return
        assert now == tree

    @initialize()
    def start(self):
        copy_tree(self.empty_store, self.made.store)
        for unit in UNITS:
            build_unit(self.made.root, unit, "v0", self.clock)
        write(self.made.root + b"/modelinfos/a.json", b"{}", self.clock.tick())

    def fresh(self):
        self.count += 1
        return f"v{self.count}"

    def settle(self):
        """Let the next command recover, and learn from the records what was displaced."""
        self.made.recover()
        for record in self.made.records("restore")[self.seen_restores :]:
            for item in record["body"]["families"]:
                if item["displaced"] is not None:
                    path = item["path"].encode()
                    content = self.before.get(path, {})
                    self.displaced[item["displaced"]] = (path, without_temporaries(content))
        self.seen_restores = len(self.made.records("restore"))

    def perhaps_killed(self, step, work):
        """Run a command in a child that dies at a step, or finishes where it has fewer."""
        self.before = families_of(self.made.root)
        everything = digests_of(self.before.values())
        killed = kill_at(step, work)
        self.settle()
        standing = digests_of(families_of(self.made.root).values())
        assert not everything - standing - stored_digests(self.made.store)
        return killed

    @rule(unit=st.sampled_from(UNITS))
    def vllm_overwrites(self, unit):
        if set(unit.paths) <= set(families_of(self.made.root)):
            overwrite_unit(self.made.root, unit, self.fresh(), self.clock)
        else:
            self.vllm_starts_cold(unit)

    def vllm_starts_cold(self, unit):
        for path in unit.paths:
            remove_tree(self.made.root + b"/" + path)
        build_unit(self.made.root, unit, self.fresh(), self.clock)

    @rule(unit=st.sampled_from(UNITS))
    def vllm_builds_again(self, unit):
        if not self.made.tree(unit.aot_path):
            self.vllm_starts_cold(unit)
        rebuild(self.made.root, unit, self.fresh(), self.clock)

    @rule(unit=st.sampled_from(UNITS))
    def vllm_loads_warm(self, unit):
        self.count += 1
        if self.made.tree(unit.aot_path):
            warm_load(self.made.root, unit, self.count / 8, self.clock)

    @rule(unit=st.sampled_from(UNITS), number=st.integers(0, 1))
    def somebody_removes_a_family(self, unit, number):
        remove_tree(self.made.root + b"/" + unit.paths[number])

    @rule(step=STEPS)
    def snapshot(self, step):
        self.perhaps_killed(step, self.made.snapshot)

    @precondition(lambda self: len(self.pins) < 4)
    @rule(unit=st.sampled_from(UNITS), step=STEPS, floor=st.booleans())
    def pin(self, unit, step, floor):
        self.settle()
        name = f"pin{self.fresh()}"
        status = "floor" if floor and not self.has_floor(unit) else "candidate"
        standing = families_of(self.made.root)
        if not set(unit.paths) <= set(standing):
            return
        self.perhaps_killed(step, lambda: self.made.pin(unit.aot, name, status=status))
        if name in self.known_pins():
            # Which partner a mega artifact has is inferred from times, so the record says it.
            paths = [item["path"].encode() for item in self.made.records("pin")[-1]["body"]["unit"]]
            assert unit.aot_path in paths
            self.pins[name] = {path: standing[path] for path in paths}

    def has_floor(self, unit):
        with self.made.keeper() as keeper:
            pins = keeper.catalogue.pins()
        return any((pin.key, pin.status) == (unit.aot, "floor") for pin in pins)

    def known_pins(self):
        with self.made.keeper() as keeper:
            return {pin.name for pin in keeper.catalogue.pins()}

    @precondition(lambda self: self.pins)
    @rule(data=st.data(), step=STEPS)
    def unpin(self, data, step):
        name = data.draw(st.sampled_from(sorted(self.pins)))

        def work():
            with self.made.keeper() as keeper:
                execute_unpin(keeper, plan_unpin(keeper, name))

        self.perhaps_killed(step, work)
        if name not in self.known_pins():
            del self.pins[name]

    @precondition(lambda self: self.pins)
    @rule(data=st.data(), step=STEPS, status=st.sampled_from(STATUSES))
    def mark(self, data, step, status):
        name = data.draw(st.sampled_from(sorted(self.pins)))

        def work():
            with self.made.keeper() as keeper:
                execute_mark(keeper, plan_mark(keeper, name, status, "measured", None))

        if not self.perhaps_killed(step, work):
            with self.made.keeper() as keeper:
                assert keeper.catalogue.pin_named(name).status == status

    @rule(step=STEPS)
    def restore_the_floors(self, step):
        self.perhaps_killed(step, self.made.restore)

    @precondition(lambda self: self.pins)
    @rule(data=st.data(), step=STEPS)
    def restore_a_pin(self, data, step):
        name = data.draw(st.sampled_from(sorted(self.pins)))
        if not self.perhaps_killed(step, lambda: self.made.restore(name)):
            for path, tree in self.pins[name].items():
                stands = self.made.tree(path)
                assert stands.keys() >= {key for key in tree if not key.endswith(b".tmp")}

    @rule(unit=st.sampled_from(UNITS), length=st.integers(4, 64), step=STEPS)
    def restore_by_hash(self, unit, length, step):
        def work():
            with suppress(UsageError):  # nothing stored yet, or several pins of this unit
                self.made.restore(unit.aot[:length])

        self.perhaps_killed(step, work)

    @precondition(lambda self: self.displaced)
    @rule(data=st.data(), step=STEPS)
    def restore_what_was_displaced(self, data, step):
        build = data.draw(st.sampled_from(sorted(self.displaced)))
        path, content = self.displaced[build]
        if not self.perhaps_killed(step, lambda: self.made.restore(f"b:{build}")):
            assert without_temporaries(self.made.tree(path)) == content

    @rule()
    def the_catalogue_is_deleted(self):
        for name in os.listdir(self.made.store):
            if name.startswith(b"catalogue.sqlite"):
                os.unlink(self.made.store + b"/" + name)
        empty = os.path.join(self.empty_store, b"catalogue.sqlite")
        shutil.copyfile(empty, self.made.store + b"/catalogue.sqlite")

    @rule()
    def the_catalogue_is_rebuilt(self):
        before = self.known_pins()
        with self.made.keeper() as keeper:
            rebuild_catalogue(keeper)
        assert self.known_pins() == before == set(self.pins)

    @invariant()
    def the_store_is_whole(self):
        if os.path.exists(self.made.store):
            self.made.check()
            assert working_litter(self.made.root) == []


def test_a_long_life(place, empty_store, nobody_looks):
    """Random lives with kills at random steps: every pin restores exactly, nothing is lost."""
    Life.empty_store, Life.place = empty_store, place
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=25,
            stateful_step_count=12,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
