"""restore: the unit is what it was, byte by byte and ns by ns, and nothing is lost."""

import os

import builders
import pytest
from builders import Unit, content_of, digests_of


def test_the_unit_is_what_it_was(ck, pinned):
    """Bytes, modes, owners, times, also of directories; extras are gone, others untouched."""
    before = pinned.families()
    pinned.overwrite()
    overwritten = pinned.families()
    assert overwritten != before
    found = ck.ok("restore")
    assert pinned.families() == before
    gone = [overwritten[path] for path in pinned.first.paths]
    assert digests_of(gone) <= builders.stored_digests(pinned.store)
    assert builders.working_litter(pinned.root) == []
    assert f"restored fast (was overwritten): {pinned.first.aot}" in found.out
    assert ck.json("verify")["pins"][0]["drift"] == "intact"


def test_modes_and_owners_come_back(ck, pinned):
    """A model that somebody opened to all is its owner's alone again."""
    before = pinned.families()
    builders.write(pinned.model(), b"other", pinned.clock.tick(), 0o666)
    os.chmod(pinned.root + b"/" + pinned.first.aot_path, 0o777)
    if os.geteuid() == 0:
        os.chown(pinned.model(1), 12345, 12345)
    ck.ok("restore")
    assert pinned.families() == before


def test_what_was_displaced_comes_back(ck, pinned):
    """restore b:... undoes a restore: the overwritten content stands there again, extras too."""
    first = pinned.families()
    pinned.overwrite()
    second = pinned.families()
    displaced = ck.json("restore")["displaced"]
    build = next(one["build"] for one in displaced if "aot" in one["path"])
    ck.ok("restore", f"b:{build[:12]}")
    temporary = pinned.first.aot_path
    undone = pinned.families()
    assert content_of(undone[temporary]) == {
        path: data
        for path, data in content_of(second[temporary]).items()
        if not path.endswith(b".tmp")
    }
    assert undone[pinned.first.partner_path] == second[pinned.first.partner_path]
    ck.ok("restore")
    assert pinned.families() == first


def test_the_hint_of_the_undo_works(ck, pinned):
    """The command that restore prints is the one that undoes it."""
    pinned.overwrite()
    model = pinned.tree()[pinned.first.aot_path + b"/rank_0_0/model"]
    lines = ck.ok("restore").out.splitlines()
    hints = [line.split("cachekeeper ")[1].split() for line in lines if "undo with" in line]
    for hint in hints:
        ck.ok(*hint)
    assert pinned.tree()[pinned.first.aot_path + b"/rank_0_0/model"] == model


def test_intact_and_grown_units_are_left_alone(ck, pinned):
    """A warm load's tuning records and files under new keys are no reason to touch anything."""
    builders.warm_load(pinned.root, pinned.first, 0.5, pinned.clock)
    top = pinned.root + b"/" + pinned.first.aot_path
    builders.write(top + b"/inductor_cache/zz/cnew.py", b"# new", pinned.clock.tick())
    before = pinned.tree()
    found = ck.json("restore")
    assert (found["restored"], found["unchanged"][0]["drift"]) == ([], "grown")
    assert pinned.tree() == before
    assert "left alone fast (grown)" in ck.ok("restore").out


def test_a_build_is_restored_exactly(ck, pinned):
    """Where a build is named, growth goes as well: the content is asked for."""
    before = pinned.families()
    build = ck.json("show", "fast")["build"]
    top = pinned.root + b"/" + pinned.first.aot_path
    builders.write(top + b"/inductor_cache/zz/cnew.py", b"# new", pinned.clock.tick())
    ck.ok("restore", f"b:{build}")
    assert pinned.families() == before
    assert builders.digest(b"# new") in builders.stored_digests(pinned.store)
    assert len(ck.json("restore", f"b:{build}")["unchanged"]) == 1


@pytest.mark.parametrize("kind", ["name", "hash", "partner", "build", "snapshot"])
def test_every_reference_restores_the_unit(ck, pinned, kind):
    """A pin's name, its hash, the 10-hex key, a build and a snapshot lead to the same content."""
    shown = ck.json("show", "fast")
    reference = {
        "name": "fast",
        "hash": pinned.first.aot[:6],
        "partner": pinned.first.partner,
        "build": f"b:{shown['build'][:10]}",
        "snapshot": shown["snapshot"],
    }[kind]
    before = pinned.families()
    pinned.overwrite()
    ck.ok("restore", reference)
    assert pinned.families() == before


def test_a_dry_run_changes_nothing(ck, pinned):
    """The plan names what would go and come, and where to."""
    pinned.overwrite()
    before = pinned.tree()
    planned = ck.json("restore", "--dry-run")
    assert pinned.tree() == before
    done = ck.json("restore")
    for key in ("restored", "unchanged"):
        assert planned[key] == done[key]
    paths = [one["path"] for one in planned["displaced"]]
    assert paths == [one["path"] for one in done["displaced"]]


def test_only_the_floors_of_the_given_root(ck, place):
    """A bare restore leaves other statuses, other roots and other families alone."""
    other = place.top + b"/other"
    builders.build_unit(other, place.first, "v1", place.clock)
    builders.settle_directories(other, place.clock)
    ck.ok("pin", place.first.aot, "--name", "here")
    ck.ok("pin", place.second.aot, "--name", "draft", "--status", "candidate")
    ck.ok("pin", place.first.aot, "--name", "there", "--root", other)
    for root in (place.root, other):
        builders.overwrite_unit(root, place.first, "v2", place.clock)
    builders.replace_models(place.root, place.second, "v2", place.clock)
    elsewhere, draft = builders.tree_of(other), place.families()[place.second.aot_path]
    data = ck.json("restore")
    assert [unit["name"] for unit in data["restored"]] == ["here"]
    assert builders.tree_of(other) == elsewhere
    assert place.families()[place.second.aot_path] == draft
    both = ck.json("restore", "--root", place.root, "--root", other)
    assert [unit["name"] for unit in both["restored"]] == ["there"]
    assert [unit["name"] for unit in both["unchanged"]] == ["here"]


def test_a_marked_floor_is_restored(ck, pinned):
    """What counts is the status now, not the one it was pinned with."""
    ck.ok("mark", "fast", "suspect", "--reason", "slower")
    pinned.overwrite()
    assert "nothing to restore" in ck.ok("restore").out
    ck.ok("mark", "fast", "floor", "--reason", "it was the driver")
    assert ck.json("restore")["restored"][0]["name"] == "fast"


def test_a_unit_that_is_gone_comes_back(ck, pinned):
    """Removed families are made anew, their parents too."""
    before = pinned.families()
    builders.remove_tree(pinned.root + b"/torch_compile_cache")
    data = ck.json("restore")
    assert (data["restored"][0]["drift"], data["displaced"]) == ("gone", [])
    after = pinned.families()
    for path in pinned.first.paths:
        assert after[path] == before[path]
    assert pinned.second.aot_path not in after


def test_a_root_that_is_gone_comes_back(ck, pinned):
    """verify says gone, scan and pins too, and restore makes the root anew."""
    before = pinned.families()
    builders.remove_tree(pinned.root)
    assert ck.json("verify", code=1)["pins"][0]["drift"] == "gone"
    assert ck.json("pins")["pins"][0]["drift"] == "gone"
    gone = ck.json("scan")["families"]
    assert {family["drift"] for family in gone} == {"gone"}
    assert {family["unit"] for family in gone} == {pinned.first.aot}
    ck.ok("restore")
    after = pinned.families()
    assert after == {path: before[path] for path in pinned.first.paths}


def test_pins_of_a_missing_root_do_not_stop_the_list(ck, pinned, monkeypatch):
    """pins has an answer wherever the environment points."""
    monkeypatch.setenv("VLLM_CACHE_ROOT", os.fsdecode(pinned.top + b"/nowhere"))
    (pin,) = ck.json("pins")["pins"]
    assert (pin["name"], pin["drift"]) == ("fast", None)


def test_one_family_that_is_gone_is_incomplete(ck, pinned):
    """Without its partner a unit is incomplete, and whole again afterwards."""
    before = pinned.families()
    builders.remove_tree(pinned.root + b"/" + pinned.first.partner_path)
    data = ck.json("verify", code=1)
    assert data["pins"][0]["drift"] == "incomplete"
    assert f"{pinned.first.partner_path.decode()} is not there" in ck("verify").out
    ck.ok("restore")
    assert pinned.families() == before


def test_a_missing_rank_comes_back(ck, pinned):
    """All ranks or none: a rank that went away is drift, and restored with the others."""
    before = pinned.families()
    builders.remove_tree(os.path.dirname(pinned.model(1)))
    assert ck.json("verify", code=1)["pins"][0]["drift"] == "incomplete"
    assert ck.json("restore")["restored"][0]["drift"] == "incomplete"
    assert pinned.families() == before


@pytest.mark.parametrize("content", [b"", b"\x80\x04\x95"])
def test_a_damaged_model_is_replaced(ck, pinned, content):
    """A torn file of a pinned unit is damage, and its bytes go to the store all the same."""
    before = pinned.families()
    builders.write(pinned.model(), content, pinned.clock.tick(), 0o600)
    assert ck.json("verify", code=1)["pins"][0]["drift"] == "damaged"
    ck.ok("restore")
    assert pinned.families() == before
    assert builders.digest(content) in builders.stored_digests(pinned.store)


def test_content_stored_broken_needs_force(ck, place):
    """What was stored broken is put back only where that is wanted."""
    builders.write(place.model(), b"", place.clock.tick(), 0o600)
    broken = place.families()
    snapshot = ck.json("snapshot", code=1)["id"]
    builders.replace_models(place.root, place.first, "v2", place.clock)
    found = ck("restore", snapshot)
    assert (found.code, "was stored broken" in found.error) == (3, True)
    assert "--force" in found.hint
    ck.ok("restore", snapshot, "--force")
    assert content_of(place.families()[place.first.aot_path]) == content_of(
        broken[place.first.aot_path]
    )


def test_two_references_that_disagree(ck, pinned):
    """Two contents for one family cannot both be restored."""
    pinned.overwrite()
    other = ck.json("snapshot")["builds"]
    build = next(b["build"] for b in other if b["key"] == pinned.first.aot)
    pinned.overwrite()
    builders.replace_models(pinned.root, pinned.first, "v3", pinned.clock)
    found = ck("restore", "fast", f"b:{build}")
    assert (found.code, "want different content" in found.error) == (3, True)


def test_a_snapshot_restores_everything(ck, place):
    """s:... puts every family and companion of its root back."""
    before = place.families()
    snapshot = ck.json("snapshot")["id"]
    place.overwrite()
    builders.replace_models(place.root, place.second, "v2", place.clock)
    builders.remove_tree(place.root + b"/modelinfos")
    builders.write(place.root + b"/gpu_p2p_access_cache_for_0,1.json", b"{}", place.clock.tick())
    ck.ok("restore", snapshot)
    assert place.families() == before
    assert ck.json("verify", snapshot)["pins"][0]["drift"] == "intact"


def test_a_consumer_cannot_reach_the_store(ck, pinned):
    """Restored files opened for writing and truncated leave every stored object whole."""
    pinned.overwrite()
    ck.ok("restore")
    top = pinned.root + b"/" + pinned.first.aot_path
    part = builders.part_path(pinned.root, pinned.first, 0)
    for path in (
        pinned.model(),
        part + b"/vllm_compile_cache.py",
        top + b"/inductor_cache/ab/kernel.best_config",
    ):
        with open(path, "wb") as file:
            file.write(b"x")
    assert ck.json("check")["ok"]


def test_a_new_partner_beside_the_pin_is_reported(ck, pinned):
    """After a source edit the new 10-hex family is named, and stays where it is."""
    fresh = builders.rebuild(pinned.root, pinned.first, "v2", pinned.clock)
    (pin,) = ck.json("verify", code=1)["pins"]
    assert [family["key"] for family in pin["new_families"]] == [fresh.partner]
    assert {change["path"] for change in pin["changed"]} == {"rank_0_0/model", "rank_1_0/model"}
    ck.ok("restore")
    assert fresh.partner_path in pinned.families()


def test_a_compile_family_alone_can_be_pinned(ck, place):
    """A family without a model is a unit of its own, gone when it is gone."""
    builders.remove_tree(place.root + b"/" + place.first.aot_path)
    data = ck.json("pin", place.first.partner)
    assert [family["key"] for family in data["unit"]] == [place.first.partner]
    before = place.families()
    builders.remove_tree(place.root + b"/" + place.first.partner_path)
    assert ck.json("verify", code=1)["pins"][0]["drift"] == "gone"
    ck.ok("restore")
    assert place.families() == before


def test_companions_is_accepted(ck, pinned):
    """The option of the contract is taken; no companion roots are kept yet."""
    assert ck.ok("restore", "--companions").code == 0


def test_a_shared_partner_is_restored_once(ck, place):
    """Two pinned units with one partner put it back once, from equal content."""
    twin = Unit("d" * 64, place.first.partner, 2, mega=False)
    source = place.root + b"/" + place.first.aot_path
    builders.copy_tree(source, place.root + b"/" + twin.aot_path)
    builders.settle_directories(place.root, place.clock)
    for unit in (place.first, twin):
        ck.ok("pin", unit.aot)
    before = place.families()
    builders.remove_tree(place.root + b"/torch_compile_cache")
    data = ck.json("restore")
    assert {unit["key"] for unit in data["restored"]} == {place.first.aot, twin.aot}
    for path in (*place.first.paths, twin.aot_path):
        assert place.families()[path] == before[path]
