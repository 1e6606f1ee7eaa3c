"""Owner and mode of pinned files, mounts inside a family, and a snapshot as one side of a diff."""

import os
import subprocess

import builders
import pytest


def test_another_mode_is_a_finding_and_restore_puts_it_back(ck, pinned):
    """vLLM overwrites a model that it cannot read, so equal bytes with another mode do not pass."""
    model = pinned.model()
    wanted = os.stat(model).st_mode
    os.chmod(model, 0)

    found = ck.json("verify", code=1)

    assert "intact" == found["pins"][0]["drift"]
    (problem,) = found["problems"]
    assert "other-owner-or-mode" == problem["code"]
    assert problem["path"].endswith("rank_0_0/model")
    assert ["fast"] == [unit["name"] for unit in ck.json("restore")["restored"]]
    assert wanted == os.stat(model).st_mode
    ck.ok("verify")


def test_another_mode_of_a_mutable_file_is_none(ck, pinned):
    """A warm load writes tuning records anew, with the mode of the day."""
    before = {path for path in builders.tree_of(pinned.root) if path.endswith(b".best_config")}
    for path in before:
        os.chmod(pinned.root + b"/" + path, 0o600)

    ck.ok("verify")

    assert before
    assert ["fast"] == [unit["name"] for unit in ck.json("restore")["unchanged"]]


def test_a_mount_inside_a_family_is_refused(ck, pinned):
    """Exchanged, a read-only mount over the ranks would guard the displaced tree from then on."""
    pinned.overwrite()
    rank = os.path.dirname(pinned.model())
    mounted = subprocess.run(["mount", "--bind", rank, rank], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this user may not mount")
    before = pinned.tree()
    try:
        outcome = ck("restore")
        assert before == pinned.tree()
    finally:
        subprocess.run(["umount", rank], check=True)

    assert 3 == outcome.code
    assert "mount point" in outcome.error
    ck.ok("restore")


def test_a_whole_snapshot_is_compared_by_its_part_of_the_unit(ck, pinned):
    """`diff PIN SNAPSHOT` is about the pin's unit, whatever else the snapshot holds."""
    snapshot = ck.json("snapshot")["id"]

    same = ck.json("diff", "fast", snapshot)
    pinned.overwrite()
    ck.json("snapshot")
    other = ck.json("diff", snapshot, "live:" + pinned.first.aot, code=1)

    assert (True, True) == (same["same_family"], same["same_build"])
    assert (True, False) == (other["same_family"], other["same_build"])
