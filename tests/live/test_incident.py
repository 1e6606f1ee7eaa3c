"""The incident on real vLLM: a comment overwrites the binary, restore brings it back."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from incident import make_scene, replay
from vllm_runner import run_command, vllm_command

pytestmark = pytest.mark.vllm

LAYOUTS = [
    pytest.param(True, 1, id="mega-tp1"),
    pytest.param(False, 1, id="non-mega-tp1"),
    pytest.param(True, 2, id="mega-tp2"),
    pytest.param(False, 2, id="non-mega-tp2", marks=pytest.mark.matrix),
    pytest.param(True, 4, id="mega-tp4", marks=pytest.mark.matrix),
    pytest.param(False, 4, id="non-mega-tp4", marks=pytest.mark.matrix),
]


def tree(top):
    """Return a tree's bytes, modes, owners and times, read without the project's own code."""
    seen = {}
    for folder, _folders, files in os.walk(top):
        for name in [".", *files]:
            path = Path(folder, name)
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            owner = (status.st_uid, status.st_gid)
            seen[str(path.relative_to(top))] = (content, status.st_mode, owner, status.st_mtime_ns)
    return seen


def unit_trees(scene):
    """Return the trees of all families that stand in the scene's root, by path."""
    top = scene.setup.root / "torch_compile_cache"
    aots = {f"aot/{path.name}": tree(path) for path in (top / "torch_aot_compile").iterdir()}
    return aots | {path.name: tree(path) for path in top.iterdir() if len(path.name) == 10}


@pytest.mark.parametrize(("mega", "ranks"), LAYOUTS)
def test_a_comment_overwrites_the_binary_and_restore_brings_it_back(
    tmp_path, vllm_venv, mega, ranks
):
    """Cold, pin, comment, overwrite, verify, restore: vLLM then loads the pinned bytes."""
    scene = make_scene(tmp_path, vllm_venv, mega=mega, tensor_parallel=ranks)
    pinned = {}
    scene.after_pin = lambda: pinned.update(unit_trees(scene))
    steps = {}
    for step in replay(scene):
        steps[step.name] = step
        if step.name == "restore":
            restored = unit_trees(scene)
    model_paths = {f"rank_{rank}_0/model" for rank in range(ranks)}

    assert ranks == len(steps["cold"].run.saved)
    families = {row["kind"]: row for row in steps["scan"].answer.json["families"]}
    assert scene.key == families["aot"]["key"] == families["aot"]["unit"]
    assert scene.key == families["compile"]["unit"]
    assert [f"rank_{rank}_0" for rank in range(ranks)] == families["aot"]["ranks"]
    assert 0 == steps["pin"].answer.exit_code

    overwrite = steps["overwrite"].run
    assert all("Source code has changed" in reason for _path, reason in overwrite.rejected)
    assert sorted(steps["cold"].run.saved) == sorted(overwrite.saved)
    verify = steps["verify"].answer
    assert 1 == verify.exit_code
    (unit,) = verify.json["pins"]
    changed = {row["path"]: row for row in unit["changed"] if row["change"] == "changed"}
    assert "overwritten" == unit["drift"]
    assert model_paths <= changed.keys()
    for path in model_paths:
        assert path in verify.text
        assert changed[path]["before"] in verify.text
        assert changed[path]["after"] in verify.text

    assert 0 == steps["restore"].answer.exit_code
    for path, content in pinned.items():
        assert content == restored[path]
    warm = steps["warm"].run
    assert sorted(steps["cold"].run.saved) == sorted(warm.loaded)
    assert not warm.compiled
    assert () == warm.saved
    assert 0 == steps["intact"].answer.exit_code
    assert "intact" == steps["intact"].answer.json["pins"][0]["drift"]
    assert {k: v[0] for k, v in pinned[f"aot/{scene.key}"].items() if k in model_paths} == {
        k: v[0] for k, v in unit_trees(scene)[f"aot/{scene.key}"].items() if k in model_paths
    }

    if mega and ranks == 1:
        check_a_running_vllm_is_seen(scene)


def check_a_running_vllm_is_seen(scene):
    """While vLLM runs from the root, restore refuses with 4 and names it; the root is untouched."""
    events = scene.cachekeeper("log").json["events"]
    displaced = next(row for row in events if row["kind"] == "snapshot")
    before = unit_trees(scene)
    engine = scene.setup
    runs = []
    thread = threading.Thread(target=lambda: runs.append(run_command(engine, vllm_command(engine))))
    thread.start()
    refusals: list[subprocess.CompletedProcess[str]] = []
    while thread.is_alive():
        answer = scene._call("restore", displaced["id"], "--dry-run")
        if answer.returncode == 4:
            refusals.append(answer)
        thread.join(timeout=0.5)
    assert [0] == [run.exit_code for run in runs]
    assert refusals
    assert "vllm" in refusals[0].stderr
    assert before == unit_trees(scene)
