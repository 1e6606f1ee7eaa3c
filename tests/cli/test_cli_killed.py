"""After a killed restore: what the next command says and does, at its command line."""

import json
import os
from pathlib import Path

import builders
import pytest
from faults import KILLED, in_child

from cachekeeper.cli.main import run
from cachekeeper.fs import primitives


def restore_killed_before(name: str, number: int) -> None:
    """Run `cachekeeper restore` in a child that dies before its n-th step of a name."""
    seen = []

    def die(step, _path):
        seen.append(step)
        if seen.count(name) == number and step == name:
            os._exit(KILLED)

    def work():
        with primitives.before_each(die):
            run(["restore", "--quiet"])

    assert in_child(work) == KILLED


@pytest.fixture
def expected(pinned):
    """Remember what stood in the root when it was pinned."""
    return pinned.families()


@pytest.fixture
def torn(pinned, expected):
    """Give a root in which a restore was killed between the two families of the floor."""
    pinned.overwrite()
    restore_killed_before("exchange", 2)
    return pinned


def test_the_next_command_finishes_it(ck, torn, expected):
    """verify finishes the restore, says so on stderr, and finds the unit intact."""
    found = ck.ok("verify")
    assert "note: finished a restore that was killed in" in found.err
    assert found.out.startswith("intact")
    assert torn.families() == expected
    assert builders.working_litter(torn.root) == []
    assert ck.json("log")["events"][0]["kind"] == "restore"


@pytest.mark.parametrize("command", [("scan",), ("snapshot",), ("restore",), ("pin", "SECOND")])
def test_any_command_on_the_root_finishes_it(ck, torn, expected, command):
    """Whatever comes next, the unit is whole afterwards."""
    words = [torn.second.aot if word == "SECOND" else word for word in command]
    assert "finished a restore" in ck.ok(*words).err
    assert torn.families() == expected


def test_what_was_only_staged_is_removed(ck, pinned):
    """A restore killed before its intent changed nothing and leaves nothing."""
    pinned.overwrite()
    before = pinned.families()
    restore_killed_before("copy", 1)
    assert builders.working_litter(pinned.root) != []
    found = ck("verify")
    assert (found.code, "removed the staging of a restore" in found.err) == (1, True)
    assert (pinned.families(), builders.working_litter(pinned.root)) == (before, [])


def test_without_its_store_the_torn_unit_is_named(ck, torn):
    """A command that knows no store says which family is old and which is new; exit 1."""
    nowhere = ("--store", torn.top + b"/nowhere")
    os.rename(torn.store, torn.top + b"/moved")
    before = torn.families()
    found = ck("verify", *nowhere)
    assert found.code == 1
    assert "a restore was killed half-way: " in found.out
    assert f"{torn.first.aot_path.decode()} is new" in found.out
    assert f"{torn.first.partner_path.decode()} is old" in found.out
    problems = ck.json("verify", *nowhere, code=1)["problems"]
    assert "unfinished-restore" in {problem["code"] for problem in problems}
    assert any("half-way" in text for text in ck.json("scan", *nowhere)["warnings"])
    assert torn.families() == before


@pytest.mark.parametrize("command", ["snapshot", "pin"])
def test_what_stores_refuses_a_torn_root(ck, torn, command):
    """Nothing of a torn unit is stored elsewhere; the hint names the store that can finish it."""
    os.rename(torn.store, torn.top + b"/away")
    extra = (torn.first.aot,) if command == "pin" else ()
    found = ck(command, *extra, "--store", torn.top + b"/other")
    assert (found.code, "belongs to a store" in found.error) == (3, True)
    assert f"--store {os.fsdecode(torn.store)}" in found.hint
    assert "note: finished" in ck.ok("verify", "--store", torn.top + b"/away").err


def test_another_store_in_its_place_cannot_finish_it(ck, torn):
    """A store that only stands where the right one was is not taken for it."""
    os.rename(torn.store, torn.top + b"/away")
    ck.ok("snapshot", "--root", torn.root + b"/modelinfos")
    found = ck("snapshot")
    assert (found.code, "belongs to a store that was at" in found.error) == (3, True)
    assert "where that store is now" in found.hint


def test_a_newer_intent_is_refused(ck, torn):
    """What a newer cachekeeper left is not guessed at."""
    (working,) = builders.working_litter(torn.root)
    path = Path(os.fsdecode(torn.root + b"/" + working), "intent.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 2}))
    found = ck("snapshot")
    assert (found.code, found.hint) == (3, "upgrade cachekeeper")
    assert "newer cachekeeper" in ck("verify").out


def test_a_broken_intent_is_kept(ck, torn):
    """A directory that may hold displaced content is never removed unread."""
    (working,) = builders.working_litter(torn.root)
    Path(os.fsdecode(torn.root + b"/" + working), "intent.json").write_text("{")
    found = ck("restore")
    assert (found.code, "is not a whole intent" in found.error) == (3, True)
    assert builders.working_litter(torn.root) == [working]
