"""Real vLLM 0.20.1 trees from H200 GPUs: what happened to them is said as it was.

They were recorded below /tmp/ck/runs, so elsewhere every index rightly points to a foreign path and
`verify` exits 1: drift is asserted there, the exit code at the recorded place.
"""

import os
import shutil
from pathlib import Path

import builders
import pytest
from builders import digest

UNIT = "d4aaeaf4fb6e8b0314e79787c61a01a3e3b06a527885d44803006f73962a1d94"
PARTNER, NEW_PARTNER = "0c79dd93f4", "eb3d177080"
MODEL = f"torch_compile_cache/torch_aot_compile/{UNIT}/rank_0_0/model"
RECORDED = Path("/tmp/ck")


@pytest.fixture
def a(ck, top, empty_store, real_tree, monkeypatch) -> bytes:
    """Give a copy of tree A whose only unit is pinned as the floor `fast`."""
    root, store = top + b"/vllm", os.fsdecode(top + b"/store")
    shutil.copytree(empty_store, store)
    monkeypatch.setenv("VLLM_CACHE_ROOT", os.fsdecode(root))
    monkeypatch.setenv("CACHEKEEPER_STORE", store)
    builders.copy_tree(real_tree("A"), root)
    assert ck.json("pin", UNIT[:8], "--name", "fast")["key"] == UNIT
    return root


def model_of(root: bytes) -> str:
    """Return the digest of the model in a tree."""
    return digest(Path(os.fsdecode(root), MODEL).read_bytes())


def test_the_edit_is_named(ck, a, real_tree):
    """A to A3: one model under the same hash, both digests, and the new 10-hex family."""
    builders.copy_tree(real_tree("A3"), a)
    (pin,) = ck.json("verify", code=1)["pins"]
    assert (pin["name"], pin["drift"]) == ("fast", "overwritten")
    assert pin["changed"] == [
        {
            "family": UNIT,
            "path": "rank_0_0/model",
            "change": "changed",
            "before": model_of(real_tree("A")),
            "after": model_of(real_tree("A3")),
        }
    ]
    assert [family["key"] for family in pin["new_families"]] == [NEW_PARTNER]
    assert f"new family beside it: torch_compile_cache/{NEW_PARTNER}" in ck("verify").out
    families = {family["key"]: family for family in ck.json("scan")["families"]}
    assert families[NEW_PARTNER]["unit"] == UNIT
    assert (families[UNIT]["drift"], families[PARTNER]["drift"]) == ("overwritten", "intact")


def test_the_edit_is_undone(ck, a, real_tree):
    """restore puts the pinned model back, and everything else of A3 stays as it is."""
    expected = builders.families_of(a)
    builders.copy_tree(real_tree("A3"), a)
    edited = builders.families_of(a)
    assert [unit["drift"] for unit in ck.json("restore")["restored"]] == ["overwritten"]
    after = builders.families_of(a)
    path = builders.AOT + b"/" + UNIT.encode()
    assert after.pop(path) == expected[path]
    overwritten = edited.pop(path)
    assert after == edited
    assert builders.digests_of([overwritten]) <= builders.stored_digests(
        os.path.dirname(a) + b"/store"
    )


def test_a_warm_load_never_alarms(ck, a, real_tree):
    """A to A4, one warm load: no file counts as changed, and diff finds nothing else."""
    builders.copy_tree(real_tree("A4"), a)
    (pin,) = ck.json("verify", code=1)["pins"]  # 1 for the foreign paths alone
    assert pin["drift"] in ("intact", "grown")
    assert pin["changed"] == []
    assert {Path(change["path"]).suffix for change in pin["mutable"]} == {".best_config"}
    found = ck.json("diff", "fast", f"live:{UNIT[:6]}")
    assert {level["equal"] for level in found["levels"].values()} == {True}
    assert ck.json("restore")["restored"] == []


@pytest.mark.parametrize("sides", [("A", "Ap"), ("Ap", "A")])
def test_another_cold_run_has_other_bytes(ck, a, real_tree, sides):
    """A and Ap, two cold runs of the same thing: the same family, another build."""
    for label in sides:
        builders.copy_tree(real_tree(label), a)
        ck.ok("snapshot")
    builds = [ck.json("show", s["id"])["unit"] for s in _snapshots(ck)[:2]]
    after, before = (
        next(family["build"] for family in unit if family["key"] == UNIT) for unit in builds
    )
    found = ck.json("diff", f"b:{before}", f"b:{after}", code=1)
    assert (found["same_family"], found["same_build"]) == (True, False)
    changed = {one["path"] for one in found["files"]["changed"]}
    assert "rank_0_0/backbone/artifact_compile_range_1_8192_subgraph_0" in changed


def _snapshots(ck) -> list[dict]:
    return [event for event in ck.json("log")["events"] if event["kind"] == "snapshot"]


def test_a_cold_rerun_is_drift(ck, a, real_tree):
    """A pinned A with Ap in its place is no match, and restored whole."""
    expected = builders.families_of(a)
    builders.copy_tree(real_tree("Ap"), a)
    (pin,) = ck.json("verify", code=1)["pins"]
    assert pin["drift"] in ("overwritten", "incomplete")
    ck.ok("restore")
    after = builders.families_of(a)
    for path in (builders.AOT + b"/" + UNIT.encode(), builders.COMPILE + b"/" + PARTNER.encode()):
        assert after[path] == expected[path]


def test_two_units_are_told_apart(ck, real_tree):
    """MT3 holds two two-rank units; each has its own 10-hex family, by its handles."""
    data = ck.json("scan", "--root", real_tree("MT3"))
    units = {f["key"]: f for f in data["families"] if f["kind"] == "aot"}
    assert [key[:8] for key in sorted(units)] == ["6d17311f", "b3433952"]
    assert all(unit["ranks"] == ["rank_0_0", "rank_1_0"] for unit in units.values())
    links = {
        (link["aot"][:8], link["compile"], link["source"]) for link in data["roots"][0]["links"]
    }
    assert links == {
        ("6d17311f", "5bcf4ab025", "handles"),
        ("b3433952", "770b08c04a", "handles"),
    }
    partners = {f["key"]: f["unit"][:8] for f in data["families"] if f["kind"] == "compile"}
    assert partners == {"5bcf4ab025": "6d17311f", "770b08c04a": "b3433952"}


def test_both_ranks_are_pinned(ck, real_tree, top):
    """LT is a unit of two ranks with its partner, and is pinned with both."""
    common = ("--root", real_tree("LT"), "--store", top + b"/store")
    data = ck.json("pin", "fd93", *common)
    assert [family["key"][:10] for family in data["unit"]] == ["fd93a1b8b4", "faa6b99152"]
    assert data["ranks"]["expected"] == ["rank_0_0", "rank_1_0"]
    assert all(family["ranks"] == ["rank_0_0", "rank_1_0"] for family in data["unit"])
    assert {link["source"] for f in data["unit"] if (link := f["link"])} == {"handles"}
    assert ck.json("verify", *common, code=1)["pins"][0]["drift"] == "intact"


@pytest.fixture
def recorded():
    """Give the place the trees were recorded at, where nothing may stand yet."""
    try:
        RECORDED.mkdir()
    except FileExistsError:
        pytest.skip(f"{RECORDED} exists and is not this test's")
    yield os.fsencode(RECORDED / "runs" / "A" / "vllm")
    shutil.rmtree(RECORDED)


def test_where_it_was_recorded_all_of_it_holds(ck, recorded, top, real_tree):
    """At its own path A has no problem; a warm load keeps it so, the edit does not."""
    common = ("--root", recorded, "--store", top + b"/store")
    recorded_parent = os.path.dirname(recorded)
    os.makedirs(recorded_parent)
    builders.copy_tree(real_tree("A"), recorded)
    ck.ok("pin", UNIT, *common)
    assert ck.json("verify", "--strict", *common)["problems"] == []
    builders.copy_tree(real_tree("A4"), recorded)
    assert ck.json("verify", *common)["pins"][0]["drift"] in ("intact", "grown")
    builders.copy_tree(real_tree("A3"), recorded)
    assert ck.json("verify", *common, code=1)["problems"] == []
    ck.ok("restore", *common)
    assert ck.json("verify", *common)["ok"]
