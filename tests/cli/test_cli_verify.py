"""verify, diff and check: what differs, what is broken, and what the exit code says of it."""

import os
import shutil

import builders
import pytest
from builders import Unit, digest


def test_all_that_holds_is_exit_0(ck, pinned):
    """An intact unit and whole families are what was asked for."""
    data = ck.json("verify")
    assert (data["ok"], data["checked"], data["problems"]) == (True, 6, [])
    assert (data["pins"][0]["drift"], data["pins"][0]["changed"]) == ("intact", [])
    assert "1 pin and 6 families checked: all of it holds" in ck.ok("verify").out


def test_a_warm_load_is_no_drift(ck, pinned):
    """Rewritten tuning records are told apart and never alarm, also with --strict."""
    builders.warm_load(pinned.root, pinned.first, 0.5, pinned.clock)
    (pin,) = ck.json("verify", "--strict")["pins"]
    assert (pin["drift"], pin["changed"]) == ("intact", [])
    assert [change["path"] for change in pin["mutable"]] == ["inductor_cache/ab/kernel.best_config"]
    assert "1 tuning record rewritten by a warm load" in ck.ok("verify").out
    assert ck("diff", "fast", f"live:{pinned.first.aot}").code == 0


def test_growth_is_a_finding_with_strict_only(ck, pinned):
    """Files under new keys are growth: 0, and 1 with --strict."""
    top = pinned.root + b"/" + pinned.first.aot_path
    builders.write(top + b"/inductor_cache/zz/cnew.py", b"# new", pinned.clock.tick())
    assert ck.json("verify")["pins"][0]["drift"] == "grown"
    assert ck.json("verify", "--strict", code=1)["ok"] is False


def test_another_candidate_shadows(ck, pinned):
    """A new file under a pinned key may win over the pinned one: a finding."""
    top = pinned.root + b"/" + pinned.first.aot_path + b"/inductor_cache/fxgraph/fa/fakey/"
    builders.write(top + b"another", b"x", pinned.clock.tick())
    (pin,) = ck.json("verify", code=1)["pins"]
    assert pin["drift"] == "shadowed"
    assert [change["change"] for change in pin["changed"]] == ["added"]


def test_other_bytes_are_overwritten(ck, pinned):
    """Both digests of each file are in the text as well."""
    before = digest(pinned.tree()[pinned.first.aot_path + b"/rank_0_0/model"].content)
    builders.replace_models(pinned.root, pinned.first, "v2", pinned.clock)
    after = digest(pinned.tree()[pinned.first.aot_path + b"/rank_0_0/model"].content)
    found = ck("verify")
    assert found.code == 1
    assert found.out.startswith(f"overwritten fast  {pinned.first.aot}\n")
    assert f"pinned {before}\n" in found.out
    assert f"live   {after}\n" in found.out


def test_a_removed_file_is_incomplete(ck, pinned):
    """Something that belongs to the unit is not there."""
    os.remove(pinned.root + b"/" + pinned.first.aot_path + b"/inductor_cache/ab/cabkernel.py")
    (pin,) = ck.json("verify", code=1)["pins"]
    assert (pin["drift"], pin["changed"][0]["change"]) == ("incomplete", "removed")


def test_a_link_that_points_elsewhere_is_a_change(ck, pinned):
    """A symbolic link's target is content."""
    path = pinned.root + b"/" + pinned.first.aot_path + b"/inductor_cache/ab/newest.py"
    os.remove(path)
    builders.link(path, b"other.py", pinned.clock.tick())
    assert ck.json("verify", code=1)["pins"][0]["drift"] == "overwritten"


def test_named_units_only(ck, pinned):
    """With REF only those units are looked at; a problem elsewhere is not theirs."""
    builders.write(pinned.model(0, pinned.second), b"", pinned.clock.tick(), 0o600)
    assert ck("verify").code == 1
    data = ck.json("verify", "fast")
    assert (data["checked"], data["problems"]) == (2, [])
    assert ck.json("verify", "fast", pinned.first.aot)["pins"][1]["name"] == "fast"


def test_unpinned_families_are_checked_against_themselves(ck, newcomer):
    """Without any store, broken families of a root are found."""
    assert ck.ok("verify").code == 0
    os.truncate(newcomer.model(1), 20)
    builders.write(newcomer.model(0, newcomer.second), b"", newcomer.clock.tick(), 0o600)
    problems = ck.json("verify", code=1)["problems"]
    assert {problem["code"] for problem in problems} == {"truncated-model", "empty-model"}
    assert all(problem.keys() >= {"code", "path", "detail"} for problem in problems)


def test_foreign_paths_are_found(ck, place):
    """A copied root points to the old one: vLLM would read the wrong files."""
    copy = place.top + b"/copy"
    builders.copy_tree(place.root, copy)
    problems = ck.json("verify", "--root", copy, code=1)["problems"]
    assert {problem["code"] for problem in problems} == {"foreign-path"}


def test_several_problems_name_their_roots(ck, place):
    """With two roots in the answer a problem's line has the whole path."""
    copy = place.top + b"/copy"
    builders.copy_tree(place.root, copy)
    builders.write(place.model(), b"", place.clock.tick(), 0o600)
    text = ck("verify", "--root", place.root, "--root", copy).out
    assert f"problem {os.fsdecode(place.model())}: 0 bytes" in text
    assert f"problem {os.fsdecode(copy)}/torch_compile_cache/" in text


def test_many_changes_are_cut_in_the_text(ck, pinned):
    """The text stops at twenty files, JSON has them all."""
    top = pinned.root + b"/" + pinned.first.aot_path + b"/inductor_cache/zz/"
    for number in range(25):
        builders.write(top + b"c%d.py" % number, b"x", pinned.clock.tick())
    text = ck.ok("verify").out
    assert "  and 5 more (--json lists all)" in text
    assert text.count("  added ") == 20
    assert len(ck.json("verify")["pins"][0]["changed"]) == 25
    assert "  and 5 more (--json lists all)" in ck("diff", "fast", f"live:{pinned.first.aot}").out


def test_diff_names_every_file(ck, pinned):
    """Added, removed and changed files are told apart, with both digests."""
    pinned.overwrite()
    os.remove(pinned.root + b"/" + pinned.first.aot_path + b"/inductor_cache/ab/newest.py")
    files = ck.json("diff", "fast", f"live:{pinned.first.aot}", code=1)["files"]
    assert [one["path"] for one in files["added"]] == ["inductor_cache/zz/czzextra.py"]
    assert [one["path"] for one in files["removed"]] == ["inductor_cache/ab/newest.py"]
    changed = {one["path"] for one in files["changed"]}
    assert "rank_0_0/model" in changed
    assert "rank_0_0/backbone/computation_graph.py" in changed
    for one in files["changed"]:
        assert one["before"] != one["after"]


def test_diff_of_two_builds(ck, pinned):
    """Two stored contents of one hash are compared as well, in both directions."""
    first = ck.json("show", "fast")["build"]
    pinned.overwrite()
    second = next(b["build"] for b in ck.json("snapshot")["builds"] if b["key"] == pinned.first.aot)
    there = ck.json("diff", f"b:{first}", f"b:{second}", code=1)["files"]
    back = ck.json("diff", f"b:{second}", f"b:{first}", code=1)["files"]
    assert [one["path"] for one in there["added"]] == [one["path"] for one in back["removed"]]
    assert ck.json("diff", f"b:{first}", "fast")["same_build"]


def test_diff_of_two_hashes(ck, place):
    """Two units are compared family by family although their hashes differ."""
    twin = Unit("d" * 64, "dddddddddd", 2, mega=False)
    builders.build_unit(place.root, twin, "v1", place.clock)
    sides = (f"live:{place.first.aot}", f"live:{twin.aot}")
    data = ck.json("diff", *sides, code=1)
    assert (data["same_family"], data["same_build"]) == (False, False)
    assert [family["other_key"] for family in data["families"]] == [twin.aot, twin.partner]
    assert "rank_0_0/model" in {one["path"] for one in data["files"]["changed"]}
    text = ck("diff", *sides).out
    assert text.startswith("other family, other build: other bytes\n")
    assert f"aot {place.first.aot[:16]} - {twin.aot[:16]}: " in text


def test_diff_of_two_snapshots(ck, place):
    """Families that only one snapshot has are said to be only there."""
    first = ck.json("snapshot")["id"]
    builders.write(place.root + b"/deep_gemm/kernel", b"x", place.clock.tick())
    second = ck.json("snapshot")["id"]
    found = ck("diff", first, second)
    assert found.code == 1
    assert f"other deep_gemm: only in {second}" in found.out
    assert ck("diff", second, second).code == 0


def test_check_of_a_whole_store(ck, pinned):
    """Every object and record is hashed."""
    data = ck.json("check")
    assert (data["ok"], data["records"]) == (True, 2)
    assert data["objects"] == len(builders.stored_digests(pinned.store))
    assert ck.ok("check").out.endswith("2 records: all whole\n")


def object_path(place, name: str) -> bytes:
    return os.path.join(place.store, b"objects", name[:2].encode(), name[2:].encode())


def model_digest(place) -> str:
    return digest(place.tree()[place.first.aot_path + b"/rank_0_0/model"].content)


def flip(path: bytes) -> None:
    """Flip one bit of a file, whatever it holds."""
    os.chmod(path, 0o600)
    with open(path, "r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))


@pytest.mark.parametrize(
    ("harm", "code"), [(flip, "damaged-object"), (os.remove, "missing-object")]
)
def test_check_names_whom_damage_hits(ck, pinned, harm, code):
    """The object, the file it is for, and the pins and snapshots that need it."""
    model = model_digest(pinned)
    snapshot = ck.json("show", "fast")["snapshot"]
    harm(object_path(pinned, model))
    found = ck("check")
    (problem,) = ck.json("check", code=1)["problems"]
    assert (problem["code"], problem["subject"], problem["pins"]) == (code, model, ["fast"])
    assert problem["snapshots"] == [snapshot[:18]]
    assert problem["detail"].endswith("rank_0_0/model")
    assert (found.code, "hits the pins fast" in found.out) == (1, True)


def test_a_new_pin_heals_the_store(ck, pinned):
    """Pinning the live unit again replaces a damaged object by the good bytes."""
    flip(object_path(pinned, model_digest(pinned)))
    ck.ok("pin", pinned.first.aot, "--name", "again", "--status", "reference")
    assert ck.json("check")["ok"]


@pytest.mark.parametrize("harm", [flip, os.remove])
def test_a_lost_manifest_is_said(ck, pinned, harm):
    """Without its list of files a build can be neither compared nor restored: 3, and named."""
    build = ck.json("show", "fast")["build"]
    pinned.overwrite()
    harm(object_path(pinned, build))
    (problem,) = ck.json("check", code=1)["problems"]
    assert problem["detail"].endswith("/manifest")
    for command in (("restore",), ("verify",), ("diff", "fast", f"live:{pinned.first.aot}")):
        assert ck(*command).code == 3


def test_strangers_in_the_store_are_told(ck, pinned):
    """An object that nobody needs is only that, when its bytes are wrong."""
    strange = object_path(pinned, "ab" * 32)
    builders.write(strange, b"strange", 1)
    (problem,) = ck.json("check", code=1)["problems"]
    assert problem["detail"] == "no pin or snapshot needs it"
    assert "no pin or snapshot needs it\n" in ck("check").out


@pytest.mark.parametrize("kind", ["snapshot", "pin"])
def test_damaged_records_are_told(ck, pinned, kind):
    """A record whose bytes are not what its name says is named by its kind."""
    folder = os.path.join(pinned.store, b"records", kind.encode())
    (name,) = os.listdir(folder)
    flip(os.path.join(folder, name))
    problems = ck.json("check", code=1)["problems"]
    assert ("damaged-record", kind) in {(p["code"], p["subject"].split()[0]) for p in problems}


def test_an_unfinished_restore_is_named(ck, pinned):
    """What verify cannot finish itself is a problem of the root."""
    working = pinned.root + b"/.cachekeeper-" + b"0" * 32
    builders.write(working + b"/intent.json", b"{", 1)
    found = ck("verify")
    assert (found.code, "unfinished-restore" in found.out) == (1, True)
    assert "unfinished-restore" in {p["code"] for p in ck.json("verify", code=1)["problems"]}
    shutil.rmtree(working)
    assert ck("verify").code == 0
