"""A root and a store that can be put back to a saved state, and what must hold after a fault."""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from builders import (
    Tree,
    content_of,
    copy_tree,
    digest,
    digests_of,
    families_of,
    read,
    store_litter,
    stored_digests,
    tree_of,
    working_litter,
    write,
)
from faults import Work, kill_at, os_error, steps_of

from cachekeeper.core.errors import KeeperError
from cachekeeper.keeper.keeper import Keeper, Settings
from cachekeeper.keeper.recovery import recover
from cachekeeper.ops.check import check
from cachekeeper.ops.mark import execute_mark, plan_mark
from cachekeeper.ops.pin import PinOptions, execute_pin, plan_pin
from cachekeeper.ops.restore import RestorePlan, execute_restore, plan_restore
from cachekeeper.ops.scan import scan
from cachekeeper.ops.snapshot import execute_snapshot, plan_snapshot
from cachekeeper.ops.unpin import execute_unpin, plan_unpin
from cachekeeper.ops.verify import verify

OLD, NEW, GONE, MIXED = "old", "new", "gone", "mixed"


@dataclass
class Scenario:
    """A root, a store, and copies of both; `old` and `new` are families by path in the root."""

    top: bytes
    old: dict[bytes, Tree] = field(default_factory=dict)
    new: dict[bytes, Tree] = field(default_factory=dict)

    @property
    def root(self) -> bytes:
        return self.top + b"/root"

    @property
    def store(self) -> bytes:
        return self.top + b"/store"

    @contextmanager
    def keeper(self, **changes: object) -> Iterator[Keeper]:
        """Give a fresh Keeper, as a new process has one."""
        settings = {"store": self.store, "roots": (self.root,), **changes}
        with Keeper(Settings(**settings)) as keeper:
            yield keeper

    def save(self) -> None:
        copy_tree(self.root, self.top + b"/saved-root")
        copy_tree(self.store, self.top + b"/saved-store")

    def reset(self) -> None:
        copy_tree(self.top + b"/saved-root", self.root)
        copy_tree(self.top + b"/saved-store", self.store)

    def snapshot(self) -> str:
        with self.keeper() as keeper:
            return execute_snapshot(keeper, plan_snapshot(keeper)).record.digest

    def pin(self, key: str, name: str = "fast", **options: object) -> None:
        with self.keeper() as keeper:
            execute_pin(keeper, plan_pin(keeper, key, PinOptions(name=name, **options)))

    def pin_first(self) -> None:
        """Pin what stands there now beside the floor."""
        self.pin(self.first.aot, "other", status="candidate")

    def unpin(self) -> None:
        with self.keeper() as keeper:
            execute_unpin(keeper, plan_unpin(keeper, "fast"))

    def mark(self) -> None:
        with self.keeper() as keeper:
            execute_mark(keeper, plan_mark(keeper, "fast", "suspect", "slow", None))

    def plan(self, *references: str) -> RestorePlan:
        with self.keeper() as keeper:
            return plan_restore(keeper, references, force=False)

    def execute(self, plan: RestorePlan) -> None:
        with self.keeper() as keeper:
            assert execute_restore(keeper, plan).findings == ()

    def restore(self, *references: str) -> None:
        self.execute(self.plan(*references))

    def verify(self, **changes: object):
        with self.keeper(**changes) as keeper:
            return verify(keeper, ())

    def scan(self, **changes: object):
        with self.keeper(**changes) as keeper:
            return scan(keeper)

    def recover(self) -> tuple[str, ...]:
        """Do what every command does first."""
        with self.keeper() as keeper:
            (root,) = keeper.roots()
            return recover(keeper, root)

    def sides(self) -> dict[bytes, str]:
        """Return for each family that the restore is about whether it is old, new, gone, mixed."""
        return {path: self._side(path) for path in self.new}

    def _side(self, path: bytes) -> str:
        now = tree_of(self.root + b"/" + path)
        if now == self.new[path]:
            return NEW
        if not now:
            return OLD if not self.old.get(path) else GONE
        return OLD if now == self.old.get(path) else MIXED

    def everything_else(self) -> dict[bytes, Tree]:
        """Return the families that the restore is not about."""
        found = families_of(self.root)
        return {path: tree for path, tree in found.items() if path not in self.new}

    def check(self) -> None:
        """Assert that the store is whole, by cachekeeper's own word and by looking."""
        with self.keeper() as keeper:
            assert check(keeper).problems == ()
        objects = [
            (top + b"/" + name, (os.path.basename(top) + name).decode())
            for top, _directories, names in os.walk(self.store + b"/objects")
            for name in names
        ]
        for path, name in objects:
            status = os.lstat(path)
            how = status.st_mode & 0o777, status.st_nlink
            assert (digest(read(path)), *how) == (name, 0o444, 1)

    def check_nothing_lost(self) -> None:
        """Assert that each byte of what stood in the families before is in the store."""
        lost = digests_of(self.old.values()) - stored_digests(self.store)
        standing = digests_of(families_of(self.root).values())
        assert not lost - standing

    def check_displaced_records(self) -> None:
        """Assert that records of displaced content speak of what really stood there."""
        for record in self.records("snapshot"):
            if record["body"]["reason"] != "displaced":
                continue
            for place in record["body"]["roots"]:
                for family in place["families"]:
                    old = self.old[family["path"].encode()]
                    assert family["files"] == len(content_of(old)) - self.left_out(old)

    @staticmethod
    def left_out(tree: Tree) -> int:
        return sum(path.endswith((b".lock", b".tmp")) for path in content_of(tree))

    def tree(self, path: bytes) -> Tree:
        return tree_of(self.root + b"/" + path)

    def content_of_new(self, path: bytes) -> dict[bytes, bytes]:
        return content_of(self.new[path])

    def object(self, name: str) -> bytes:
        return read(self.object_path(name))

    def object_path(self, name: str) -> bytes:
        return self.store + b"/objects/" + name[:2].encode() + b"/" + name[2:].encode()

    def damage(self, name: str) -> None:
        """Flip a bit in the middle of an object, its size and times kept."""
        path = self.object_path(name)
        status, data = os.stat(path), bytearray(read(path))
        data[len(data) // 2] ^= 1
        os.chmod(path, 0o600)
        write(path, bytes(data), status.st_mtime_ns, 0o444)

    def record_count(self) -> int:
        return sum(len(names) for _top, _dirs, names in os.walk(self.store + b"/records"))

    def record_digest(self, kind: str) -> str:
        """Return the digest of the newest record of a kind."""
        return max(os.listdir(self.store + b"/records/" + kind.encode()))[13:77].decode()

    def records(self, kind: str) -> list[dict]:
        """Return the records of a kind in order, read without cachekeeper."""
        top = self.store + b"/records/" + kind.encode()
        names = sorted(os.listdir(top)) if os.path.isdir(top) else []
        return [json.loads(read(top + b"/" + name)) for name in names]

    def step_of_intent(self, work: Work) -> int:
        """Return the number of the step that gives the intent its name."""
        self.reset()
        steps = steps_of(work)
        return next(n for n, (_name, path) in enumerate(steps) if path.endswith(b"/intent.json"))

    def steps_from_intent(self, work: Work) -> list[int]:
        """Return the steps of a restore from just before its intent; of the removal every sixth."""
        self.reset()
        names = [name for name, _path in steps_of(work)]
        intent, removal = self.step_of_intent(work), names.index("unlink")
        return [
            *range(intent - 4, removal + 4),
            *range(removal + 4, len(names), 6),
            len(names) + 9,
        ]

    def tear(self) -> None:
        """Kill a restore between its two exchanges."""
        self.torn_plan = self.plan()
        self.torn_at = self.step_of_intent(lambda: self.execute(self.torn_plan)) + 3
        self.retear()
        assert set(self.sides().values()) == {OLD, NEW}

    def retear(self) -> None:
        """Tear the unit again, as `tear` did."""
        self.reset()
        assert kill_at(self.torn_at, lambda: self.execute(self.torn_plan))

    def shape(self) -> dict[bytes, tuple[str, bytes]]:
        """Return every path below the root with its bytes; directories' times may change."""
        found = tree_of(self.root).items()
        return {path: (node.kind, node.content) for path, node in found if path}

    def fail_then_kill(self, failing: int, number: int, plan: RestorePlan) -> bool:
        """Raise EIO before one step and die before a later one; tell whether it died."""

        def work() -> None:
            with suppress(OSError, KeeperError):
                self.execute(plan)

        return kill_at(number, work, errors={failing: os_error(errno.EIO)})

    def build_anew(self, path: bytes) -> None:
        """Write content that was never seen before; from now on it is what must not be lost."""
        write(self.root + b"/" + path + b"/rank_0_0/backbone/computation_graph.py", b"fresh", 1)
        self.old = {**self.old, b"fresh": tree_of(self.root + b"/" + path)}

    def check_clean(self) -> None:
        """Assert that nothing is left over, in the root or in the store."""
        assert working_litter(self.root) == []
        assert store_litter(self.store) == []

    def contents(self) -> dict[bytes, dict[bytes, bytes]]:
        """Return the bytes of all families, without times and directories."""
        return {path: content_of(tree) for path, tree in families_of(self.root).items()}


@contextmanager
def held(path: bytes, *, exclusive: bool) -> Iterator[None]:
    """Hold a directory's lock as another process would."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)
