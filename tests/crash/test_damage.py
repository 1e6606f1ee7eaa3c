"""A damaged store says so, names whom it hits, and never puts damage into a root."""

import json
import os

import pytest
from builders import digest, families_of, read, working_litter, write
from scenario import NEW

from cachekeeper.core.errors import DamagedStoreError, FormatError, RefusedError
from cachekeeper.ops.check import check
from cachekeeper.ops.pin import PinOptions, execute_pin, plan_pin


def _model_digest(made):
    return digest(made.new[made.first.aot_path][b"rank_0_0/model"].content)


def _flip(made, name):
    made.damage(name)


def _truncate(made, name):
    path = made.object_path(name)
    data = read(path)
    os.chmod(path, 0o600)
    write(path, data[:-1], 1, 0o444)


def _delete(made, name):
    os.unlink(made.object_path(name))


def _swap(made, name):
    other = digest(made.new[made.first.aot_path][b"rank_1_0/model"].content)
    aside = made.top + b"/aside"
    os.rename(made.object_path(name), aside)
    os.rename(made.object_path(other), made.object_path(name))
    os.rename(aside, made.object_path(other))


def _problems(made):
    with made.keeper() as keeper:
        return check(keeper).problems


DAMAGES = [_flip, _truncate, _delete, _swap]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_restore_refuses_damage_before_it_changes_anything(overwritten, damage):
    """Nothing live is touched, nothing is left over, and the exit code is that of a refusal."""
    made = overwritten
    before = families_of(made.root)
    damage(made, _model_digest(made))
    with pytest.raises(DamagedStoreError) as caught:
        made.restore()
    assert caught.value.exit_code == 3
    assert "check" in caught.value.hint
    assert families_of(made.root) == before
    assert working_litter(made.root) == []


@pytest.mark.parametrize("what", ["build", "attributes"])
@pytest.mark.parametrize("damage", [_flip, _truncate, _delete])
def test_a_restore_refuses_damaged_lists(overwritten, damage, what):
    """A manifest or an attribute list is an object like any other."""
    made = overwritten
    before = families_of(made.root)
    family = made.records("pin")[0]["body"]["unit"][0]
    damage(made, family[what])
    with pytest.raises(DamagedStoreError):
        made.restore()
    assert families_of(made.root) == before
    (problem,) = [p for p in _problems(made) if p.subject == family[what]]
    assert problem.pins == ("fast",)


@pytest.mark.parametrize("damage", DAMAGES)
def test_check_names_the_pins_and_snapshots_that_are_hit(overwritten, damage):
    """By name, with the file that the object is kept for."""
    made = overwritten
    name = _model_digest(made)
    damage(made, name)
    (problem,) = [p for p in _problems(made) if p.subject == name]
    assert problem.code == ("missing-object" if damage is _delete else "damaged-object")
    assert problem.pins == ("fast",)
    assert len(problem.snapshots) == 1
    assert "rank_0_0/model" in problem.detail


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_pin_of_good_live_content_heals_a_damaged_object(pinned, damage):
    """The same bytes still stand in the root: pinning them again makes the store whole."""
    made = pinned
    made.new = made.pinned_families
    damage(made, _model_digest(made))
    assert _problems(made)
    made.pin(made.first.aot, "again", status="candidate")
    made.check()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_pin_of_a_damaged_snapshot_is_refused(overwritten, damage):
    """What is pinned from the store was verified there."""
    made = overwritten
    snapshot = made.record_digest("snapshot")
    damage(made, _model_digest(made))
    with made.keeper() as keeper:
        options = PinOptions(name="old", status="candidate", snapshot=snapshot)
        plan = plan_pin(keeper, made.first.aot, options)
        with pytest.raises(DamagedStoreError):
            execute_pin(keeper, plan)
    assert len(made.records("pin")) == 1


@pytest.mark.parametrize("name", ["model", "vllm_compile_cache.py", "kernel.best_config"])
def test_a_program_that_writes_into_restored_files_does_not_reach_the_store(overwritten, name):
    """vLLM opens some of its files to write in place: the store hands out no hard links."""
    made = overwritten
    made.restore()
    written = 0
    for top, _directories, files in os.walk(made.root):
        for file in files:
            if file.decode() == name:
                with open(top + b"/" + file, "wb") as opened:
                    opened.write(b"scribble")
                written += 1
    assert written >= 2
    made.check()
    if name != "kernel.best_config":  # every warm load rewrites that: no drift
        made.restore()
        assert set(made.sides().values()) == {NEW}


def _record_path(made, kind):
    return (
        made.store
        + b"/records/"
        + kind.encode()
        + b"/"
        + max(os.listdir(made.store + b"/records/" + kind.encode()))
    )


def test_a_damaged_pin_record_is_said_by_check_and_verify(overwritten):
    """A pin that cannot be read any more must not look like no pin at all."""
    made = overwritten
    made.restore()
    assert made.verify().ok
    path = _record_path(made, "pin")
    write(path, read(path)[:-2], 1)
    assert [p.code for p in _problems(made)] == ["damaged-record"]
    with pytest.raises(DamagedStoreError):
        made.verify()
    os.unlink(made.store + b"/catalogue.sqlite")
    assert not made.verify().ok
    (scanned,) = made.scan()
    assert any("cannot be read" in warning for warning in scanned.warnings)
    with pytest.raises(DamagedStoreError):
        made.restore()


def test_a_missing_record_is_a_gap(overwritten):
    """Numbers are given one after the other, so a record that was removed leaves a gap."""
    made = overwritten
    made.snapshot()
    os.unlink(_record_path(made, "pin"))
    (problem,) = _problems(made)
    assert (problem.code, problem.subject) == ("missing-record", "2")


def test_a_record_twice_is_said(overwritten):
    """Under another number a copy is no record of its own."""
    made = overwritten
    path = _record_path(made, "pin")
    directory, name = os.path.split(path)
    write(directory + b"/000000000003" + name[12:], read(path), 1)
    (problem,) = _problems(made)
    assert problem.code == "damaged-record"
    assert "3" in problem.detail


def test_two_records_of_one_number_are_said(overwritten):
    """As after two stores were copied over each other."""
    made = overwritten
    whole = json.loads(read(_record_path(made, "pin")))
    whole["body"]["name"] = "other"
    data = (json.dumps(whole, sort_keys=True, separators=(",", ":")) + "\n").encode()
    write(made.store + b"/records/pin/000000000002-" + digest(data).encode() + b".json", data, 1)
    assert [p.code for p in _problems(made)] == ["record-twice"]


@pytest.mark.parametrize(
    "path", ["..", "../../etc/x", "/etc/x", "a/../../x", "%2E%2E/x", "a//b", ".", "%", "a/%00b"]
)
def test_a_record_that_points_outside_is_refused(overwritten, path):
    """A record from elsewhere, however well-formed its digest, must not reach outside its root."""
    made = overwritten
    before = families_of(made.root)
    with made.keeper() as keeper:
        body = dict(made.records("pin")[0]["body"], name="evil")
        body["unit"] = [dict(body["unit"][0], path=path)]
        keeper.store.records.append("pin", body)
    with pytest.raises((FormatError, RefusedError)) as caught:
        made.restore("evil")
    assert caught.value.exit_code == 3
    assert families_of(made.root) == before
    assert [p.code for p in _problems(made)] == ["damaged-record"]


def _with_list(made, what, change):
    """Pin content with a list of our own, stored under its digest."""
    with made.keeper() as keeper:
        body = dict(made.records("pin")[0]["body"], name="evil")
        family = dict(body["unit"][0])
        data = change(made.object(family[what]))
        family[what] = keeper.store.objects.put_bytes(data).digest
        body["unit"] = [family]
        keeper.store.records.append("pin", body)


@pytest.mark.parametrize("path", [b"../x", b"/etc/x", b"a/../x", b"rank_0_0/model/below", b"./a"])
@pytest.mark.parametrize("what", ["build", "attributes"])
def test_a_list_that_points_outside_is_refused(overwritten, what, path):
    """The paths inside manifests and attribute lists are checked where they enter."""
    made = overwritten
    before = families_of(made.root)
    _with_list(made, what, lambda data: data.replace(b" rank_0_0/model\n", b" " + path + b"\n"))
    with pytest.raises(RefusedError):
        made.restore("evil")
    assert families_of(made.root) == before
    assert working_litter(made.root) == []


def test_a_lock_below_a_link_is_refused(overwritten):
    """A list could name a link and then a lock below it: that would be written elsewhere."""
    made = overwritten
    before = families_of(made.root)
    empty = digest(b"").encode()

    def change(data):
        lines = data.split(b"\n")
        at = next(n for n, line in enumerate(lines) if line.endswith(b"/newest.py"))
        lock = b"k 600 0 0 1 0 " + empty + lines[at][lines[at].rindex(b" ") :] + b"/x.lock"
        return b"\n".join([*lines[: at + 1], lock, *lines[at + 1 :]])

    _with_list(made, "attributes", change)
    with pytest.raises(RefusedError):
        made.restore("evil")
    assert families_of(made.root) == before


def test_the_catalogue_may_be_deleted_or_broken_at_any_time(overwritten):
    """It is an index of the records: pins, verify and restore go on without it."""
    made = overwritten
    for data in (None, b"", b"broken" * 999):
        for name in os.listdir(made.store):
            if name.startswith(b"catalogue.sqlite"):
                os.unlink(made.store + b"/" + name)
        if data is not None:
            write(made.store + b"/catalogue.sqlite", data, 1, 0o600)
        assert [unit.content.name for unit in made.verify().units] == ["fast"]
    made.restore()
    assert made.verify().ok
