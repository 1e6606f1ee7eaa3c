"""Other programs that write while cachekeeper reads or replaces: what they wrote is never lost."""

import errno
import os

import pytest
from builders import (
    Clock,
    best_config,
    digest,
    families_of,
    model,
    model_path,
    read,
    replace_models,
    stored_digests,
    working_litter,
    write,
)
from faults import as_user, at_step, no_exchange
from scenario import NEW

from cachekeeper.core.errors import BusyError, RefusedError
from cachekeeper.core.paths import path_text
from cachekeeper.fs.primitives import before_each
from cachekeeper.fs.reading import FileState
from cachekeeper.keeper.memory import encode_memory
from cachekeeper.ops.restore import execute_restore, plan_restore


def _replace_model(made):
    replace_models(made.root, made.first, "v3", Clock())


def _replace_model_unseen(made):
    """Replace each model by one of equal size and time, as `cp -p` or `rsync -t` may."""
    for rank in range(made.first.ranks):
        path = model_path(made.root, made.first, rank)
        status = os.stat(path)
        write(path + b".new", b"x" * status.st_size, status.st_mtime_ns, 0o600)
        os.replace(path + b".new", path)


def _write_in_place_unseen(made):
    path = model_path(made.root, made.first, 0)
    status = os.stat(path)
    write(path, b"y" * status.st_size, status.st_mtime_ns, 0o600)


def _add_temporary(made):
    write(model_path(made.root, made.first, 0) + b".99.tmp", b"nearly done", 5)


def _retarget_link(made):
    path = made.root + b"/" + made.first.aot_path + b"/inductor_cache/ab/newest.py"
    os.unlink(path)
    os.symlink(b"cabKERNEL.py", path)


@pytest.mark.parametrize("exchange", [at_step, None], ids=["exchange", "renames"])
@pytest.mark.parametrize(
    "write_something",
    [_replace_model, _replace_model_unseen, _write_in_place_unseen, _add_temporary, _retarget_link],
)
def test_what_is_written_just_before_the_exchange_is_kept(overwritten, write_something, exchange):
    """A live writer changes a family after it was stored: its bytes are in the store afterwards."""
    made = overwritten
    written = set()

    def act():
        before = {digest(n.content) for n in made.tree(made.first.aot_path).values()}
        write_something(made)
        after = {digest(n.content) for n in made.tree(made.first.aot_path).values()}
        written.update(after - before)

    name = "exchange" if exchange else "rename-new"
    where = made.first.aot.encode() if exchange else b"/new/0.old"
    plan = made.plan()
    with at_step(name, where, act) as done:
        if exchange:
            made.execute(plan)
        else:
            with no_exchange():
                made.execute(plan)
    assert done == [name]
    assert written
    assert written <= stored_digests(made.store)
    made.check_nothing_lost()
    made.check()


def test_what_cannot_be_stored_after_the_exchange_stays_until_it_can(overwritten):
    """The disk is full when a late change is found: the displaced tree waits in the root."""
    made = overwritten
    written = digest(model(made.first, 0, "v3"))
    exchanged = []

    def hook(name, path):
        if name == "exchange" and not exchanged:
            exchanged.append(path)
            _replace_model(made)
        elif exchanged and name == "create":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    plan = made.plan()
    with before_each(hook), pytest.raises(OSError, match="No space"):
        made.execute(plan)
    assert set(made.sides().values()) == {NEW}
    assert len(working_litter(made.root)) == 1
    assert written not in stored_digests(made.store)
    made.recover()
    assert written in stored_digests(made.store)
    made.check_nothing_lost()
    made.check()
    made.check_clean()


def test_a_file_written_in_place_under_the_restore_is_said(overwritten):
    """An unchanged file is linked into the staged tree; who has it open changes both."""
    made = overwritten
    path = made.root + b"/" + made.first.aot_path + b"/inductor_cache/ab/cabkernel.py"

    def act():
        status = os.stat(path)
        with open(path, "r+b") as file:
            file.write(b"!")
        os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))

    plan = made.plan()
    with made.keeper() as keeper, at_step("exchange", made.first.aot.encode(), act):
        result = execute_restore(keeper, plan)
    assert any("cabkernel.py" in finding for finding in result.findings)
    made.check()


@pytest.mark.parametrize("command", ["snapshot", "pin", "restore"])
def test_a_family_that_keeps_changing_is_busy(overwritten, command):
    """Content that is never the same twice is read three times and then refused, not stored."""
    made = overwritten
    path = made.root + b"/" + made.first.aot_path + b"/inductor_cache/ab/kernel.best_config"
    before = made.record_count()
    count = iter(range(100))

    def act():
        write(path, best_config(4, next(count)), 10**18 + next(count))

    plan = made.plan()
    work = {
        "snapshot": made.snapshot,
        "pin": lambda: made.pin(made.second.aot, "other"),
        "restore": lambda: made.execute(plan),
    }
    if command == "pin":
        path = model_path(made.root, made.second, 0)
        write(path, b"before", 7, 0o600)
    with at_step("create", b"/object.", act, times=99) as done, pytest.raises(BusyError):
        work[command]()
    assert len(done) >= 3
    assert made.record_count() == before
    made.check_clean()
    made.check()


def test_a_family_that_changes_once_is_read_again(overwritten):
    """One change while it is read costs a second reading; what is stored is what stood last."""
    made = overwritten
    path = model_path(made.root, made.first, 0)

    def act():
        write(path, b"\x80\x04N.", 10**18, 0o600)

    with at_step("create", b"/object.", act) as done:
        made.snapshot()
    assert done
    made.check()
    assert digest(b"\x80\x04N.") in stored_digests(made.store)
    (record,) = made.records("snapshot")[-1]["body"]["roots"]
    kept = next(f for f in record["families"] if f["key"] == made.first.aot)
    assert f" {digest(read(path))} rank_0_0/model" in made.object(kept["build"]).decode()


def test_good_live_bytes_heal_a_damaged_object_before_they_go(overwritten):
    """What a restore displaces must be readable from the store, also where an object was there."""
    made = overwritten
    made.snapshot()
    path = model_path(made.root, made.first, 0)
    made.damage(digest(read(path)))
    made.restore()
    made.check_nothing_lost()
    made.check()


def test_two_names_of_one_file_do_not_outlive_each_other(overwritten):
    """A tool that links equal files may leave both names of a file in the family that goes."""
    made = overwritten
    first, second = (model_path(made.root, made.first, rank) for rank in range(2))
    os.unlink(second)
    os.link(first, second)
    made.old = {path: made.tree(path) for path in made.first.paths}
    made.snapshot()
    made.damage(digest(read(first)))
    made.restore()
    made.check_nothing_lost()
    made.check()


def test_remembered_digests_are_no_evidence_for_a_restore(overwritten):
    """A restore of stored content that is not pinned hashes what stands there all the same."""
    made = overwritten
    record = made.records("pin")[0]["body"]
    build = next(f["build"] for f in record["unit"] if f["kind"] == "aot")
    with made.keeper() as keeper:
        keeper.store.records.append("unpin", {"name": "fast", "pin": made.record_digest("pin")})
        pinned = made.new[made.first.aot_path]
        lies = {}
        for name, node in pinned.items():
            here = made.root + b"/" + made.first.aot_path + b"/" + name
            if node.kind == "f" and not name.endswith(b".lock"):
                lies[name] = (FileState.of(os.lstat(here)), digest(node.content))
        items = {path_text(made.first.aot_path): encode_memory(lies)}
        keeper.catalogue.remember(path_text(made.root), items)
        execute_restore(keeper, plan_restore(keeper, (f"b:{build}",), force=False))
    assert made.tree(made.first.aot_path) == pinned
    made.check_nothing_lost()


def test_content_that_cannot_be_read_is_not_displaced(nobodys):
    """A file of another user cannot be kept, so the restore refuses and leaves it where it is."""
    made = nobodys
    os.chown(model_path(made.root, made.first, 0), 0, 0)
    before = families_of(made.root)

    def restore():
        with pytest.raises(RefusedError):
            made.restore()

    as_user(os.stat(made.store).st_uid, restore)
    assert families_of(made.root) == before
    made.check_clean()


def test_write_protected_directories_are_no_litter(nobodys):
    """Some owners protect rank directories by their mode; a restore removes and recreates them."""
    made = nobodys
    os.chmod(os.path.dirname(model_path(made.root, made.first, 0)), 0o555)
    as_user(os.stat(made.store).st_uid, made.restore)
    assert set(made.sides().values()) == {NEW}
    made.check_clean()
    made.check_nothing_lost()
