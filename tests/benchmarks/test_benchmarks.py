"""The benchmark command runs and has a row for each task; no time is asserted."""

import ast
import json
import os
import subprocess
import sys

import pytest

_HERE = os.path.dirname(os.path.abspath(__file__))
_TINY = ("--rounds", "1", "--files", "60", "--megabytes", "2", "--snapshots", "12")
_TASKS = (
    "first snapshot (synced)",
    "snapshot, nothing changed, no pins",
    "snapshot, one model changed",
    "restore of everything",
    "restore of everything (synced)",
    "restore over a tree with one file changed",
    "verify of a whole root",
    "cachekeeper --help",
    "cachekeeper ls",
    "cachekeeper log",
    "cachekeeper pins",
)


def _script(name, *arguments):
    return subprocess.run(
        (sys.executable, os.path.join(_HERE, name), *arguments),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _cells(stdout):
    """Read the table: each task's cells by the names in the head."""
    head, rule, *lines = stdout.splitlines()
    starts = [
        at for at, sign in enumerate(rule) if sign == "-" and (at == 0 or rule[at - 1] == " ")
    ]
    ends = [*starts[1:], None]

    def cut(line):
        return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]

    names = cut(head)
    return {cut(line)[0]: dict(zip(names, cut(line), strict=True)) for line in lines[: len(_TASKS)]}


def test_every_task_has_a_row_with_a_figure_of_cachekeeper(tmp_path):
    work, raw = str(tmp_path / "work"), str(tmp_path / "raw.json")
    tools = "cachekeeper,cp,rsync,blake3"
    done = _script("run.py", "--work", work, "--json", raw, "--only", tools, *_TINY)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = _cells(done.stdout)
    assert tuple(rows) == _TASKS
    for row in rows.values():
        assert float(row["cachekeeper"]) > 0
        assert int(row["peak RSS [MB]"]) > 0
    with open(raw, encoding="utf-8") as file:
        figures = json.load(file)
    assert figures["schema"] == "cachekeeper-benchmarks/1"
    assert len(figures["tasks"]) == len(_TASKS) - 1  # one task has two rows
    assert not os.path.exists(work)


def test_the_peers_are_measured_without_cachekeeper(tmp_path):
    work = str(tmp_path / "work")
    done = _script("run.py", "--work", work, "--only", "cp,blake3", *_TINY)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = _cells(done.stdout)
    assert tuple(rows) == _TASKS
    assert float(rows["first snapshot (synced)"]["cp"]) >= 0
    assert float(rows["verify of a whole root"]["blake3"]) > 0
    assert rows["cachekeeper ls"]["cachekeeper"] == "-"


def test_a_directory_with_files_of_others_is_left_alone(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("x")
    done = _script("run.py", "--work", str(tmp_path), "--only", "cp", *_TINY)
    assert done.returncode == 1
    assert "not empty" in done.stdout
    assert precious.read_text() == "x"


def test_an_unknown_tool_is_refused(tmp_path):
    done = _script("run.py", "--work", str(tmp_path / "work"), "--only", "floppy")
    assert done.returncode == 2
    assert "floppy" in done.stderr


def _files(root):
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found


@pytest.mark.parametrize(("files", "megabytes", "ranks"), [(60, 2, 2), (300, 6, 4)])
def test_the_tree_has_the_size_asked_for_and_handles_that_lead_somewhere(
    tmp_path, files, megabytes, ranks
):
    root = str(tmp_path / "root")
    sizes = ("--files", str(files), "--megabytes", str(megabytes), "--ranks", str(ranks))
    assert _script("tree.py", root, *sizes).returncode == 0
    made = _files(root)
    assert len(made) == files
    assert abs(sum(map(len, made.values())) / (megabytes * 1e6) - 1) < 0.1
    indexes = [path for path in made if path.endswith("vllm_compile_cache.py")]
    assert len(indexes) == ranks
    loose = {path.split("/")[-2] for path in made if "/aotautograd/" in path}
    for path in indexes:
        for entry in ast.literal_eval(made[path].decode()).values():
            name, handle = entry["graph_handle"]
            assert handle == os.path.join(root, os.path.dirname(path), name)
            assert os.path.isfile(handle)
            assert entry["cache_key"] in loose


def test_the_same_seed_gives_the_same_tree(tmp_path):
    trees = []
    for name in ("one", "another"):
        _script("tree.py", str(tmp_path / name), "--files", "60", "--megabytes", "2")
        trees.append(_files(str(tmp_path / name)))
    own_path = ("vllm_compile_cache.py", "__grp__")  # these hold the root's own path
    one, another = (
        {path: data for path, data in tree.items() if not any(mark in path for mark in own_path)}
        for tree in trees
    )
    assert one == another
