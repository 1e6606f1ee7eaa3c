"""The order of effects: what a power cut needs on disk is on disk before what relies on it."""

from faults import steps_of


class Trace:
    """The primitives of one command, in order, by name and path."""

    def __init__(self, made, work):
        self.made = made
        self.steps = steps_of(work)

    def all(self, name, part=b""):
        """Return the positions of a primitive whose path holds `part`."""
        return [n for n, (step, path) in enumerate(self.steps) if step == name and part in path]

    def one(self, name, part=b""):
        (found,) = self.all(name, part)
        return found

    def check_record(self, kind):
        """A record's bytes are synced before its name, its name before anything else."""
        named = self.one("rename", b"/records/" + kind)
        assert [step for step, _path in self.steps[named - 2 : named + 2]] == [
            "write",
            "fsync",
            "rename",
            "fsync",
        ]
        return named


def test_objects_are_durable_before_the_record_of_a_snapshot(overwritten):
    """One syncfs for many objects, then the record."""
    trace = Trace(overwritten, overwritten.snapshot)
    record = trace.check_record(b"snapshot/")
    synced = trace.one("syncfs", overwritten.store)
    assert max(trace.all("rename", b"/objects/")) < synced < record
    assert len(trace.steps) == record + 2


def test_a_restore_takes_each_step_only_when_the_ones_before_are_durable(overwritten):
    """Stage, keep, sync, intent, exchange, record, and the intent goes before the old trees."""
    made = overwritten
    plan = made.plan()
    trace = Trace(made, lambda: made.execute(plan))
    staged = max(trace.all("copy") + trace.all("link") + trace.all("attributes"))
    kept = max(trace.all("rename", b"/objects/"))
    kept_synced = trace.one("syncfs", made.store)
    displaced = trace.check_record(b"snapshot/")
    root_synced = trace.one("syncfs", made.root)
    intent = trace.one("rename", b"/intent.json")
    exchanged = trace.all("exchange")
    recorded = trace.check_record(b"restore/")
    removed = trace.all("unlink", b"/.cachekeeper-")
    assert staged < root_synced
    assert kept < kept_synced < displaced < root_synced < intent
    assert [step for step, _path in trace.steps[intent - 2 : intent + 2]] == [
        "write",
        "fsync",
        "rename",
        "fsync",
    ]
    assert intent + 1 < min(exchanged)
    parents = {path.rpartition(b"/")[0] for path in (made.root + b"/" + p for p in made.new)}
    synced = {trace.steps[n][1] for n in trace.all("fsync") if max(exchanged) < n < recorded}
    assert parents < synced
    assert recorded + 1 < removed[0]
    assert trace.steps[removed[0]][1].endswith(b"/intent.json")
    assert trace.steps[removed[0] + 1][0] == "fsync"
    assert trace.all("rmdir")[-1] == len(trace.steps) - 1


def test_nothing_in_the_store_is_ever_changed_or_removed(overwritten):
    """Objects and records are made, never written again: each path below them is named once."""
    made = overwritten
    plan = made.plan()
    for work in (made.snapshot, made.pin_first, lambda: made.execute(plan), made.mark, made.unpin):
        trace = Trace(made, work)
        for name, path in trace.steps:
            if path.startswith((made.store + b"/objects/", made.store + b"/records/")):
                assert name in ("rename", "mkdir", "fsync"), (name, path)
        named = [path for name, path in trace.steps if name == "rename" and b"/objects/" in path]
        assert len({*named}) * 2 >= len(named)  # twice where the directory had to be made first
