"""snapshot: whole, without reading twice, broken families marked, all roots at once."""

import json
import os
import socket
import subprocess
import sys

import builders
import pytest
from cli_runner import TIMEOUT_S

# Prints, last, the files below the root that a command opened.
WATCHED = """
import json, os, sys
root, opened = os.fsencode(os.environ["VLLM_CACHE_ROOT"]), []

def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.fsencode(arguments[0])
        if path.startswith(root + b"/"):
            opened.append(os.fsdecode(path[len(root) + 1:]))

sys.addaudithook(note)
from cachekeeper.cli.main import run
code = run(sys.argv[1:])
print(json.dumps(opened), file=sys.stderr)
sys.exit(code)
"""


def opened_by(*arguments: str) -> set[bytes]:
    """Return the files of the root that a command of its own process opened for reading."""
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments], capture_output=True, check=True,
        timeout=TIMEOUT_S,
    )  # fmt: skip
    return set(map(os.fsencode, json.loads(done.stderr.splitlines()[-1])))


def files_below(place, paths) -> set[bytes]:
    """Return every file below some paths of the root."""
    return {
        path
        for path, node in place.tree().items()
        if node.kind == "f" and any(path == top or path.startswith(top + b"/") for top in paths)
    }


def test_a_snapshot_holds_every_byte(ck, place):
    """Every file and link of the root is in the store afterwards, under its digest."""
    data = ck.json("snapshot", "-m", "before the upgrade")
    assert builders.digests_of(place.families().values()) <= builders.stored_digests(place.store)
    paths = [build["path"].encode() for build in data["builds"]]
    assert paths == sorted(place.families())
    assert data["total_bytes"] == sum(build["bytes"] for build in data["builds"])
    assert data["skipped"] == {"lock": 2, "temporary": 0}
    event = ck.json("log")["events"][0]
    assert (event["id"], event["detail"]) == (data["id"], "before the upgrade")


def test_twice_stores_nothing_new(ck, place):
    """Unchanged content has the same builds and costs no bytes."""
    first, second = ck.json("snapshot"), ck.json("snapshot")
    assert second["builds"] == first["builds"]
    assert (first["new_bytes"] > 0, second["new_bytes"]) == (True, 0)
    assert first["id"] != second["id"]


def test_one_changed_file_costs_its_bytes(ck, place):
    """New bytes are the changed file's, and only its family has another build."""
    first = ck.json("snapshot")
    data = b"# another graph\n" * 100
    path = builders.part_path(place.root, place.first, 1) + b"/computation_graph.py"
    builders.write(path, data, place.clock.tick())
    assert ck.json("snapshot", "--dry-run")["new_bytes"] == len(data)
    second = ck.json("snapshot")
    assert second["new_bytes"] == len(data)
    other = [b for b in second["builds"] if b not in first["builds"]]
    assert [build["key"] for build in other] == [place.first.partner]


def test_a_dry_run_tells_what_would_be_new(ck, newcomer):
    """The plan of the first snapshot has the bytes of the snapshot, and stores none."""
    planned = ck.json("snapshot", "--dry-run")
    assert (planned["id"], os.path.exists(newcomer.store)) == (None, False)
    done = ck.json("snapshot")
    assert planned["builds"] == done["builds"]
    assert planned["new_bytes"] == done["new_bytes"]


def test_an_unchanged_root_is_not_read_again(newcomer):
    """The third snapshot opens no file, then only a changed one; a pinned unit is always read."""
    opened_by("snapshot")
    opened_by("snapshot")  # what was written just before the first is trusted from here on
    assert opened_by("snapshot") == set()
    changed = b"modelinfos/llama-LlamaForCausalLM.json"
    builders.write(newcomer.root + b"/" + changed, b'{"hash": "2"}', newcomer.clock.tick())
    assert opened_by("snapshot") == {changed}
    opened_by("pin", newcomer.first.aot)
    assert opened_by("snapshot") - {changed} == files_below(newcomer, newcomer.first.paths)


def test_what_was_wrong_is_remembered(ck, place):
    """A damaged model is told by every snapshot, also by one that reads nothing."""
    builders.write(place.model(), b"\x80\x04", place.clock.tick(), 0o600)
    for _ in range(3):
        data = ck.json("snapshot", code=1)
        assert [problem["code"] for problem in data["problems"]] == ["truncated-model"]


def test_a_repaired_file_is_no_problem_any_more(ck, place):
    """What is remembered of a broken file is not said of the whole one."""
    whole = place.tree()[place.first.aot_path + b"/rank_0_0/model"].content
    builders.write(place.model(), b"", place.clock.tick(), 0o600)
    assert ck.json("snapshot", code=1)["problems"][0]["code"] == "empty-model"
    builders.write(place.model(), whole, place.clock.tick(), 0o600)
    assert ck.json("snapshot")["problems"] == []


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "empty-model"), (b"\x80\x04\x95", "truncated-model"), (b"\0" * 64, "damaged-model")],
)
def test_broken_families_are_stored_and_marked(ck, place, content, code):
    """Exit 1, the bytes in the store, and the family marked in its record."""
    builders.write(place.model(), content, place.clock.tick(), 0o600)
    data = ck.json("snapshot", code=1)
    (problem,) = data["problems"]
    assert (problem["code"], problem["severity"]) == (code, "damaged")
    assert problem["path"].encode() == place.first.aot_path + b"/rank_0_0/model"
    assert builders.digest(content) in builders.stored_digests(place.store)
    family = next(f for f in ck.json("show", data["id"])["unit"] if f["key"] == place.first.aot)
    assert family["problems"] == [code]
    found = ck("pin", place.first.aot, "--from", data["id"])
    assert (found.code, "was stored broken" in found.error) == (3, True)


def test_a_missing_rank_is_incomplete(ck, place):
    """A unit without one of its ranks is stored, marked, and not pinned."""
    builders.remove_tree(os.path.dirname(place.model(0)))
    data = ck.json("snapshot", code=1)
    assert {problem["code"] for problem in data["problems"]} >= {"missing-rank"}
    found = ck("pin", place.first.aot)
    assert (found.code, "is incomplete" in found.error) == (3, True)


def test_required_ranks_are_required(ck, place):
    """--require-ranks names every unit that has fewer, marks it, and is exit 1."""
    assert ck.json("snapshot", "--require-ranks", "1")["problems"] == []
    data = ck.json("snapshot", "--require-ranks", "2", code=1)
    (problem,) = data["problems"]
    assert problem["path"].encode() == place.second.aot_path
    assert problem["detail"] == "rank 1 of 2 is not there"
    assert ck("pin", place.second.aot, "--from", data["id"]).code == 3
    assert ck("pin", place.first.aot, "--from", data["id"]).code == 0
    more = ck.json("snapshot", "--require-ranks", "4", "--dry-run", code=1)
    assert {problem["detail"] for problem in more["problems"]} == {
        "rank 2, 3 of 4 is not there",
        "rank 1, 2, 3 of 4 is not there",
    }


def test_what_is_no_content_is_counted(ck, place):
    """Locks and temporary files are told and are no part of a build."""
    before = {b["key"]: b["build"] for b in ck.json("snapshot")["builds"]}
    builders.write(place.model() + b".99.tmp", b"half", place.clock.tick())
    builders.write(place.root + b"/" + place.first.aot_path + b"/x.lock", b"", place.clock.tick())
    data = ck.json("snapshot")
    assert data["skipped"] == {"lock": 3, "temporary": 1}
    assert {b["key"]: b["build"] for b in data["builds"]} == before
    text = ck.ok("snapshot").out
    assert "no part of the build ids: 3 lock files, 1 temporary file\n" in text


def test_what_is_no_file_is_said(ck, place):
    """A socket or a FIFO in a family cannot be kept: it is told, and never opened."""
    os.mkfifo(place.root + b"/modelinfos/pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.fsdecode(place.root + b"/modelinfos/s"))
        problems = ck.json("snapshot")["problems"]
    assert [(p["code"], p["severity"]) for p in problems] == [("special-file", "notice")] * 2


def test_any_name_and_link_is_kept(ck, place):
    """Names that are not UTF-8 or hold a newline, and dangling or absolute links, come back."""
    top = place.root + b"/odd\xff"
    builders.write(top + b"/new\nline %41 \xe9", b"1", place.clock.tick())
    builders.link(top + b"/dangling", b"nowhere", place.clock.tick())
    builders.link(top + b"/absolute", b"/etc/hostname", place.clock.tick())
    os.makedirs(top + b"/empty/directory")
    builders.settle_directories(place.root, place.clock)
    before = builders.tree_of(top)
    snapshot = ck.json("snapshot")["id"]
    builders.remove_tree(top)
    ck.ok("restore", snapshot)
    assert builders.tree_of(top) == before


def test_no_companions_is_accepted(ck, place):
    """The option of the contract is taken; no companion roots are kept yet."""
    assert ck.ok("snapshot", "--no-companions").code == 0


def test_two_roots_in_one_snapshot(ck, place):
    """Both roots are in it, problems name theirs, and each unit goes back to its own."""
    other = place.top + b"/other"
    builders.build_unit(other, place.first, "v2", place.clock)
    builders.settle_directories(other, place.clock)
    builders.write(builders.model_path(other, place.first, 0), b"", place.clock.tick(), 0o600)
    both = ("--root", place.root, "--root", other)
    data = ck.json("snapshot", *both, code=1)
    assert {build["root"].encode() for build in data["builds"]} == {place.root, other}
    assert [problem["root"].encode() for problem in data["problems"]] == [other]
    text = ck("snapshot", *both).out
    assert f"problem {os.fsdecode(other)}/torch_compile_cache" not in text  # one root has problems
    shown = ck.json("show", data["id"])
    assert shown["root"] is None
    assert {family["root"].encode() for family in shown["unit"]} == {place.root, other}
    assert os.fsdecode(other) in ck.ok("show", data["id"]).out
    for command in ("restore", "verify", "diff"):
        extra = (data["id"],) if command == "diff" else ()
        found = ck(command, data["id"], *extra, *both)
        assert (found.code, "holds several roots" in found.error) == (
            2 if command == "verify" else 3,
            True,
        )
    before = place.families()
    place.overwrite()
    builders.remove_tree(place.root + b"/" + place.second.aot_path)
    for unit in (place.first, place.second):
        ck.ok("restore", unit.aot, "--root", place.root)
    assert place.families() == before


def test_a_symlinked_root_is_its_target(ck, place):
    """What was pinned by way of a link is the real root's, and the other way round."""
    link = place.top + b"/link"
    os.symlink(place.root, link)
    ck.ok("pin", place.first.aot, "--root", link, "--name", "fast")
    before = place.families()
    assert ck.json("verify", "--root", place.root)["pins"][0]["drift"] == "intact"
    place.overwrite()
    data = ck.json("restore", "--root", link)
    assert [unit["name"] for unit in data["restored"]] == ["fast"]
    assert place.families() == before
    assert os.path.islink(link)
    (root,) = ck.json("scan", "--root", link)["roots"]
    assert (root["path"], root["real_path"]) == (os.fsdecode(link), os.fsdecode(place.root))
