import os

import pytest

from cachekeeper.layouts.families import find_families
from cachekeeper.layouts.names import Rank
from cachekeeper.layouts.structure import check_structure, check_unit

AOT = "c15860dd" * 8
AOT_PATH = f"torch_compile_cache/torch_aot_compile/{AOT}"
COMPILE_PATH = "torch_compile_cache/0c79dd93f4"
BACKBONE = f"{COMPILE_PATH}/rank_0_0/backbone"
INDEX = "rank_0_0/backbone/vllm_compile_cache.py"


@pytest.fixture
def check(files_of):
    """Give the problems of the family at a path of a root, or of the only one."""

    def checked(root, path=None):
        places = find_families(root).places
        (place,) = [each for each in places if path is None or each.path == path.encode()]
        return check_structure(root, place, files_of(os.path.join(root, place.path)))

    return checked


def _codes(problems):
    return [(problem.code, problem.path, problem.severity) for problem in problems]


@pytest.mark.parametrize("label", ["A", "A3", "A4", "Ap", "LT", "MT3"])
def test_real_trees_have_no_problem_but_that_they_were_moved(real_tree, check, label):
    root = real_tree(label)
    for place in find_families(root).places:
        problems = check(root, place.path.decode())
        assert {problem.code for problem in problems} == (
            {"foreign-path"} if place.kind == "compile" else set()
        )


def test_a_moved_real_tree_names_where_it_was(real_tree, check):
    (problem,) = check(real_tree("A"), "torch_compile_cache/0c79dd93f4")
    assert (problem.path, problem.severity) == (INDEX.encode(), "warning")
    assert problem.detail == (
        "target is gone, vLLM up to 0.30 does not start with this: 3 of 3 handles point outside "
        "their rank directory, first to /tmp/ck/runs/A/vllm/torch_compile_cache/0c79dd93f4/"
        "rank_0_0/backbone/artifact_compile_range_1_8192_subgraph_0"
    )


def test_eight_ranks_with_one_empty_model(make_root, check):
    """Seen after saves of eight workers on a full tmpfs; the locks beside are empty too."""
    files = {f"{AOT_PATH}/rank_{rank}_0/model": b"m" if rank != 3 else b"" for rank in range(8)}
    files[f"{AOT_PATH}/inductor_cache/locks/c12.lock"] = b""
    assert _codes(check(make_root(files))) == [("empty-model", b"rank_3_0/model", "damaged")]


@pytest.mark.parametrize(
    "name",
    [
        "inductor_cache/ab/cab.py",
        "inductor_cache/ab/0f.best_config",
        "inductor_cache/triton/0/ABC/k.cubin",
        "inductor_cache/triton/0/ABC/__grp__k.json",
        "inductor_cache/ab/cab.main.so",
    ],
)
def test_empty_files_that_always_hold_something_are_damaged(make_root, check, name):
    root = make_root({f"{AOT_PATH}/rank_0_0/model": b"m", f"{AOT_PATH}/{name}": b""})
    assert _codes(check(root)) == [("empty-file", name.encode(), "damaged")]


@pytest.mark.parametrize(
    "name",
    [
        "inductor_cache/locks/x.py.lock",
        "inductor_cache/ab/.1.2.tmp",
        "inductor_cache/triton/0/tmp.pid_1_ab/k.cubin",
        "inductor_cache/package/__init__.py",
        "inductor_cache/ab/unknown",
        "rank_0_0/note.txt",
    ],
)
def test_empty_locks_temporary_and_unknown_files_are_fine(make_root, check, name):
    root = make_root({f"{AOT_PATH}/rank_0_0/model": b"m", f"{AOT_PATH}/{name}": b""})
    assert check(root) == ()


def test_an_empty_artifact_and_an_empty_index_are_said_once(make_root, check):
    root = make_root({
        f"{BACKBONE}/artifact_compile_range_1_8_subgraph_0": b"",
        f"{BACKBONE}/vllm_compile_cache.py": b"",
    })  # fmt: skip
    assert sorted(_codes(check(root))) == [
        ("empty-file", b"rank_0_0/backbone/artifact_compile_range_1_8_subgraph_0", "damaged"),
        ("empty-file", INDEX.encode(), "damaged"),
    ]


def test_empty_files_of_companions_and_strangers(make_root, check):
    root = make_root({"modelinfos/x.json": b"", "mine/x.json": b""})
    assert _codes(check(root, "modelinfos")) == [("empty-file", b"x.json", "damaged")]
    assert check(root, "mine") == ()


def test_a_companion_that_is_one_file(make_root, check):
    root = make_root({"gpu_p2p_access_cache_for_0.json": b""})
    assert _codes(check(root)) == [("empty-file", b"", "damaged")]


def test_a_family_without_ranks_is_incomplete(make_root, check):
    root = make_root({f"{AOT_PATH}/inductor_cache/ab/cab.py": b"x"})
    assert _codes(check(root)) == [("missing-rank", b"", "incomplete")]
    assert check(make_root({f"{COMPILE_PATH}/": b""}), COMPILE_PATH) == ()


def test_a_rank_directory_without_model_is_incomplete_even_when_empty(make_root, check):
    root = make_root({
        f"{AOT_PATH}/rank_0_0/model": b"m", f"{AOT_PATH}/rank_1_0/": b"",
        f"{AOT_PATH}/rank_2_0/model.77.tmp": b"half",
    })  # fmt: skip
    assert _codes(check(root)) == [
        ("missing-rank", b"rank_1_0", "incomplete"),
        ("missing-rank", b"rank_2_0", "incomplete"),
    ]


@pytest.mark.parametrize(
    ("ranks", "detail"),
    [
        (["0_0", "1_0"], None),
        (["0_0_dev1", "1_0_dev0"], None),
        (["0_0", "0_1", "1_0", "1_1"], None),
        (["1_0"], "1 of 2 ranks are missing: rank_0_0"),
        (["0_0", "3_0"], "2 of 4 ranks are missing: rank_1_0, rank_2_0"),
        (["0_0", "1_0", "0_1"], "1 of 4 ranks are missing: rank_1_1"),
        (
            ["0_999999999"],
            "999999999 of 1000000000 ranks are missing: "
            + ", ".join(f"rank_0_{replica}" for replica in range(8))
            + ", …",
        ),
    ],
)
@pytest.mark.parametrize("family", [AOT_PATH, COMPILE_PATH])
def test_gaps_in_the_numbers_of_ranks(make_root, check, family, ranks, detail):
    root = make_root({f"{family}/rank_{rank}/model": b"m" for rank in ranks})
    details = [problem.detail for problem in check(root)]
    assert details == ([] if detail is None else [detail])


def test_unknown_names_of_ranks_are_a_warning(make_root, check):
    root = make_root({
        f"{AOT_PATH}/rank_0_0/model": b"m", f"{AOT_PATH}/rank_0_0_gpu1/model": b"m",
        f"{AOT_PATH}/rank_list": b"a file, not a directory",
    })  # fmt: skip
    assert _codes(check(root)) == [("unknown-rank-name", b"rank_0_0_gpu1", "notice")]


def test_unpacked_artifacts_are_a_warning_and_a_mix_is_another(make_root, check):
    root = make_root({
        f"{BACKBONE}/artifact_a": b"x", f"{BACKBONE}/artifact_b/fxgraph/ab/f/1": b"x",
        f"{BACKBONE}/artifact_b/aotautograd/a/1": b"x",
        f"{COMPILE_PATH}/rank_1_0/artifact_c/fxgraph/ab/f/1": b"x",
    })  # fmt: skip
    mixed, unpacked = check(root)
    assert _codes([mixed, unpacked]) == [
        ("mixed-save-format", b"rank_0_0", "warning"),
        ("unpacked-format", b"rank_1_0", "notice"),
    ]
    assert mixed.detail.startswith(
        "1 unpacked (directories): not safe with concurrent writers; 1 b"
    )


@pytest.fixture
def indexed(make_root, index_text):
    """Make a compile family whose index names two artifacts below a directory."""

    def make(directory=None, kept=("artifact_0", "artifact_1/fxgraph/x")):
        root = make_root({f"{BACKBONE}/{name}": b"x" for name in kept})
        where = directory or f"{os.fsdecode(root)}/{BACKBONE}"
        text = index_text([(f"{where}/artifact_0", "a0"), (f"{where}/artifact_1", "a1")])
        make_root({f"{BACKBONE}/vllm_compile_cache.py": text})
        return root

    return make


def test_handles_to_files_and_directories_here_are_fine(indexed, check):
    assert [problem.code for problem in check(indexed())] == ["mixed-save-format"]


def test_a_handle_without_its_artifact_is_incomplete(indexed, check):
    (problem,) = check(indexed(kept=("artifact_0",)))
    path = b"rank_0_0/backbone/artifact_1"
    assert _codes([problem]) == [("missing-artifact", path, "incomplete")]
    assert problem.detail == f"1 of 2 handles have no artifact here: {path.decode()}"


def test_many_missing_artifacts_are_one_problem(make_root, index_text, check):
    text = index_text([(f"/old/rank_0_0/backbone/artifact_{n}", "a") for n in range(9)])
    missing, foreign = check(make_root({f"{BACKBONE}/vllm_compile_cache.py": text}))
    assert missing.detail.startswith("9 of 9 handles have no artifact here: ")
    assert missing.detail.endswith(", …")
    assert foreign.code == "foreign-path"


def test_handles_to_the_place_before_are_foreign_but_not_missing(indexed, check):
    kept = ("artifact_0", "artifact_1")
    (problem,) = check(indexed("/old/vllm/x/rank_0_0/backbone", kept))
    assert _codes([problem]) == [("foreign-path", INDEX.encode(), "warning")]
    assert problem.detail.startswith("target is gone")


def test_a_foreign_target_that_still_exists_is_said_louder(indexed, check, tmp_path):
    old = tmp_path / "old" / "rank_0_0" / "backbone"
    old.mkdir(parents=True)
    (old / "artifact_0").write_bytes(b"x")
    problems = check(indexed(str(old), ("artifact_0", "artifact_1")))
    assert [problem.detail.split(":")[0] for problem in problems] == [
        "target still exists, vLLM up to 0.30 reads it in place of the file here",
        "target is gone, vLLM up to 0.30 does not start with this",
    ]
    assert {problem.code for problem in problems} == {"foreign-path"}


def test_another_rank_of_this_family_is_foreign(indexed, check, tmp_path):
    other = f"{tmp_path}/vllm/{COMPILE_PATH}/rank_1_0/backbone"
    (problem,) = check(indexed(other, ("artifact_0", "artifact_1")))
    assert problem.code == "foreign-path"


def test_relative_handles_are_foreign_and_never_alive(indexed, check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "artifact_0").write_bytes(b"x")
    (problem,) = check(indexed(".", ("artifact_0", "artifact_1")))
    assert problem.detail.startswith("target is gone")


def test_a_root_reached_by_a_link_is_the_same_place(indexed, check, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "vllm")
    kept = ("artifact_0", "artifact_1")
    root = indexed(f"{tmp_path}/link/{BACKBONE}", kept)
    assert check(root) == ()
    indexed(kept=kept)
    assert check(os.fsencode(tmp_path / "link")) == ()


def test_a_handle_that_climbs_out_is_foreign(indexed, check, tmp_path):
    inside = f"{tmp_path}/vllm/{BACKBONE}"
    problems = check(indexed(f"{inside}/../../../../../..", ("artifact_0", "artifact_1")))
    assert [problem.code for problem in problems] == ["foreign-path"]


@pytest.mark.parametrize("text", ["{((1,", "import os", "[" * 1000, "{1: 2}"])
def test_an_index_that_cannot_be_read_is_damaged(make_root, check, text):
    root = make_root({f"{BACKBONE}/vllm_compile_cache.py": text})
    assert _codes(check(root)) == [("unreadable-index", INDEX.encode(), "damaged")]


def test_an_index_that_may_not_be_read_is_a_warning(indexed, check, monkeypatch):
    root = indexed(kept=("artifact_0", "artifact_1"))

    def refusing(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refusing)
    assert _codes(check(root)) == [("unreadable-index", INDEX.encode(), "warning")]


def test_an_index_that_is_too_large_is_damaged(make_root, check):
    root = make_root({f"{BACKBONE}/vllm_compile_cache.py": b" " * (8 * 1024 * 1024 + 1)})
    assert _codes(check(root)) == [("unreadable-index", INDEX.encode(), "damaged")]


def test_an_index_deeper_down_is_not_vllms(make_root, check):
    root = make_root({f"{BACKBONE}/deep/er/vllm_compile_cache.py": b"torn"})
    assert check(root) == ()


def test_equal_ranks_are_no_problem():
    ranks = [Rank(0, 0), Rank(1, 0)]
    assert check_unit(ranks, [("0c79dd93f4", [Rank(1, 0, 5), Rank(0, 0, 4)], False)]) == ()


def test_ranks_that_differ_are_mixed_unless_the_partner_is_mega():
    partners = [
        ("0c79dd93f4", [Rank(0, 0)], False), ("eb3d177080", [Rank(0, 0), Rank(2, 1)], False),
        ("286c2d0883", [Rank(0, 0)], True),
    ]  # fmt: skip
    first, second = check_unit([Rank(0, 0), Rank(1, 0)], partners)
    assert _codes([first, second]) == [("mixed-ranks", b"", "incomplete")] * 2
    assert first.detail == (
        "ranks of the model missing in 0c79dd93f4: rank_1_0; only in 0c79dd93f4: none"
    )
    assert second.detail.endswith("only in eb3d177080: rank_2_1")
