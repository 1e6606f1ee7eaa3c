import os
import shutil

import pytest

from cachekeeper.layouts.families import FamilyPlace, find_families
from cachekeeper.layouts.listing import parts_of, ranks_of
from cachekeeper.layouts.names import Rank
from cachekeeper.layouts.units import Link, find_links, is_mega

AOT_CACHE = "torch_compile_cache/torch_aot_compile"
KEYS = [letter * 8 * 8 for letter in "abcdef"]
PARTNERS = [letter * 10 for letter in "0123456789"]
SECOND = 1_000_000_000


def _links(root):
    return find_links(root, find_families(root).places)


def _pairs(root):
    return [(link.aot[:8], link.compile, link.source) for link in _links(root)]


def _set_time(root, path, seconds):
    target = os.path.join(root, path.encode())
    os.utime(target, ns=(round(seconds * SECOND), round(seconds * SECOND)))


@pytest.fixture
def mega(make_root):
    """Make mega units: models {(key, rank): s} and parts {(partner, rank, part): s}."""

    def make(models, parts):
        root = make_root({"torch_compile_cache/": b""})
        for (key, rank), seconds in models.items():
            path = f"{AOT_CACHE}/{key}/{rank}/model"
            make_root({path: b"m", f"{AOT_CACHE}/{key}/inductor_cache/aotautograd/a7x/5z": b"p"})
            _set_time(root, path, seconds)
        for (partner, rank, part), seconds in parts.items():
            path = f"torch_compile_cache/{partner}/{rank}/{part}"
            make_root(
                {f"{path}/cache_key_factors.json": b"{}", f"{path}/computation_graph.py": b"g"}
            )
            _set_time(root, f"{path}/cache_key_factors.json", seconds - 20)
            _set_time(root, f"{path}/computation_graph.py", seconds)
        return root

    return make


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("A", [("d4aaeaf4", "0c79dd93f4", "handles")]),
        ("A4", [("d4aaeaf4", "0c79dd93f4", "handles")]),
        ("Ap", [("d4aaeaf4", "0c79dd93f4", "handles")]),
        ("LT", [("fd93a1b8", "faa6b99152", "handles")]),
        (
            "A3",
            [
                ("01a6245e", "286c2d0883", "handles"),
                ("d4aaeaf4", "0c79dd93f4", "handles"),
                ("d4aaeaf4", "eb3d177080", "handles"),
            ],
        ),
        (
            "MT3",
            [("6d17311f", "5bcf4ab025", "handles"), ("b3433952", "770b08c04a", "handles")],
        ),
    ],
)
def test_links_of_real_trees(real_tree, label, expected):
    root = real_tree(label)
    assert _pairs(root) == expected
    places = find_families(root).places
    assert not any(is_mega(root, place) for place in places if place.kind == "compile")


def test_the_detail_counts_the_keys_of_all_ranks(real_tree):
    (link,) = _links(real_tree("LT"))
    assert link.detail == "6 of 6 cache keys of its indexes are keys in fd93a1b8's AOTAutograd"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("A3", [("01a6245e", "286c2d0883", 0.5), ("d4aaeaf4", "eb3d177080", 0.4)]),
        ("MT3", [("6d17311f", "5bcf4ab025", 2.1), ("b3433952", "770b08c04a", 2.5)]),
    ],
)
def test_times_alone_find_the_partner_that_was_written_last(real_tree, tmp_path, label, expected):
    """The same trees as if they were mega: the index and the artifacts taken away."""
    root = os.path.join(os.fsencode(tmp_path), b"vllm")
    skip = shutil.ignore_patterns("vllm_compile_cache.py", "artifact_*", "triton", "fxgraph")
    shutil.copytree(os.fsdecode(real_tree(label)), os.fsdecode(root), ignore=skip)
    found = [
        (link.aot[:8], link.compile, float(link.detail.split()[2]), link.source)
        for link in _links(root)
    ]
    assert [each[:2] for each in found] == [each[:2] for each in expected]
    assert [each[2] for each in found] == pytest.approx([each[2] for each in expected], abs=0.15)
    assert {each[3] for each in found} == {"inferred"}


def test_an_index_links_to_the_family_that_has_most_of_its_keys(make_root, index_text):
    root = make_root({
        f"{AOT_CACHE}/{KEYS[0]}/inductor_cache/aotautograd/a1/x": b"p",
        f"{AOT_CACHE}/{KEYS[0]}/inductor_cache/aotautograd/a2/x": b"p",
        f"{AOT_CACHE}/{KEYS[1]}/inductor_cache/aotautograd/a2/x": b"p",
        f"{AOT_CACHE}/{KEYS[1]}/inductor_cache/aotautograd/a3/x": b"p",
        f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/backbone/vllm_compile_cache.py":
            index_text([("/x/artifact_0", "a1"), ("/x/artifact_1", "a2")]),
        f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/eagle_head/vllm_compile_cache.py":
            index_text([("/x/artifact_0", "a3")]),
        f"torch_compile_cache/{PARTNERS[1]}/rank_0_0/backbone/vllm_compile_cache.py":
            index_text([("/x/artifact_0", "a2")]),
    })  # fmt: skip

    assert [(link.aot[0], link.compile[0], link.detail[:6]) for link in _links(root)] == [
        ("a", "0", "2 of 3"),
        ("a", "1", "1 of 1"),  # a2 lies in both: both are linked
        ("b", "0", "1 of 3"),
        ("b", "1", "1 of 1"),
    ]


def test_a_torn_index_is_no_evidence_and_no_exception(make_root):
    root = make_root({
        f"{AOT_CACHE}/{KEYS[0]}/rank_0_0/model": b"m",
        f"{AOT_CACHE}/{KEYS[0]}/inductor_cache/aotautograd/a1/x": b"p",
        f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/backbone/vllm_compile_cache.py": b"{((1,",
    })  # fmt: skip
    (link,) = _links(root)
    assert link == Link(KEYS[0], PARTNERS[0], "inferred", "the only pair in this root")


def test_a_given_reader_is_used(make_root, index_text):
    path = f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/backbone/vllm_compile_cache.py"
    root = make_root({f"{AOT_CACHE}/{KEYS[0]}/inductor_cache/aotautograd/a1/x": b"", path: b"torn"})
    seen = []

    def read(asked):
        seen.append(asked)
        return index_text([("/x/artifact_0", "a1")]).encode()

    (link,) = find_links(root, find_families(root).places, read)
    assert link.source == "handles"
    assert seen == [os.path.join(root, path.encode())]


def test_keys_that_do_not_match_forbid_a_guess(make_root, index_text):
    root = make_root({
        f"{AOT_CACHE}/{KEYS[0]}/rank_0_0/model": b"m",
        f"{AOT_CACHE}/{KEYS[0]}/inductor_cache/aotautograd/a1/x": b"p",
        f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/backbone/vllm_compile_cache.py":
            index_text([("/x/artifact_0", "a9")]),
    })  # fmt: skip
    assert _links(root) == ()


def test_the_only_pair_is_a_pair_whatever_the_times_say(mega):
    root = mega({(KEYS[0], "rank_0_0"): 100}, {(PARTNERS[0], "rank_0_0", "backbone"): 900})
    assert _links(root) == (Link(KEYS[0], PARTNERS[0], "inferred", "the only pair in this root"),)
    place = next(place for place in find_families(root).places if place.kind == "compile")
    assert is_mega(root, place)


def test_mega_units_are_paired_by_the_nearest_earlier_write(mega):
    root = mega(
        {(KEYS[0], "rank_0_0"): 1000.0, (KEYS[1], "rank_0_0"): 1050.0},
        {
            (PARTNERS[0], "rank_0_0", "backbone"): 960.0,
            (PARTNERS[1], "rank_0_0", "backbone"): 998.5,
            (PARTNERS[2], "rank_0_0", "backbone"): 1047.0,
        },
    )
    rival = "1 other could be meant, the nearest is"
    assert [(link.aot[0], link.compile[0], link.detail) for link in _links(root)] == [
        ("a", "1", f"last written 1.5 s before the model; {rival} {PARTNERS[0]}"),
        ("b", "2", f"last written 3.0 s before the model; {rival} {PARTNERS[1]}"),
    ]


def test_parts_of_one_compile_family_belong_to_several_models(mega):
    root = mega(
        {(KEYS[0], "rank_0_0"): 1001.0, (KEYS[1], "rank_0_0"): 1031.0},
        {
            (PARTNERS[0], "rank_0_0", "backbone"): 1000.0,
            (PARTNERS[0], "rank_0_0", "eagle_head"): 1030.0,
        },
    )
    assert [(link.aot[0], link.compile[0]) for link in _links(root)] == [("a", "0"), ("b", "0")]


@pytest.mark.parametrize(
    ("models", "parts"),
    [
        pytest.param({"a": 1000}, {"0": 1001, "1": 1002}, id="all written after the model"),
        pytest.param({"a": 1000}, {"0": 999, "1": 999}, id="two as near"),
        pytest.param(
            {"a": 1000}, {"0": 100, "1": 930}, id="an edit undone: all written long before"
        ),
    ],
)
def test_no_guess_where_times_do_not_decide(mega, models, parts):
    root = mega(
        {(key * 64, "rank_0_0"): seconds for key, seconds in models.items()},
        {(key * 10, "rank_0_0", "backbone"): seconds for key, seconds in parts.items()},
    )
    assert _links(root) == ()


def test_a_partner_that_holds_the_kernels_may_be_written_longer_before(make_root):
    """As of vLLM 0.17: an index, no keys in the AOT family, saved after the first forward pass."""
    root = make_root({
        f"{AOT_CACHE}/{KEYS[0]}/rank_0_0/model": b"m",
        f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/backbone/artifact_0": b"a",
        f"torch_compile_cache/{PARTNERS[1]}/rank_0_0/backbone/artifact_0": b"a",
    })  # fmt: skip
    _set_time(root, f"{AOT_CACHE}/{KEYS[0]}/rank_0_0/model", 10_000)
    _set_time(root, f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/backbone/artifact_0", 9_000)
    _set_time(root, f"torch_compile_cache/{PARTNERS[1]}/rank_0_0/backbone/artifact_0", 9_500)
    (link,) = _links(root)
    assert (link.compile, link.detail) == (PARTNERS[1], "last written 500.0 s before the model")


def test_a_part_belongs_to_the_nearest_model_alone(mega):
    models = {(KEYS[0], "rank_0_0"): 1002.0, (KEYS[1], "rank_0_0"): 1030.0}
    root = mega(models, {(PARTNERS[0], "rank_0_0", "backbone"): 1000.0})
    assert _pairs(root) == [("aaaaaaaa", PARTNERS[0], "inferred")]


def test_other_ranks_are_another_unit(mega):
    root = mega(
        {(KEYS[0], "rank_0_0"): 1000, (KEYS[0], "rank_1_0"): 1001},
        {
            (PARTNERS[0], "rank_0_0", "backbone"): 999,
            (PARTNERS[1], "rank_0_0", "backbone"): 990,
            (PARTNERS[1], "rank_1_0", "backbone"): 992,
        },
    )
    (link,) = _links(root)
    assert (link.compile, link.detail) == (PARTNERS[1], "last written 10.0 s before the model")


def test_families_without_ranks_are_not_paired(make_root):
    root = make_root({
        f"{AOT_CACHE}/{KEYS[0]}/": b"", f"{AOT_CACHE}/{KEYS[1]}/rank_0_0/": b"",
        f"torch_compile_cache/{PARTNERS[0]}/": b"",
    })  # fmt: skip
    assert _links(root) == ()


def test_families_that_vanish_are_no_exception(tmp_path):
    places = (
        FamilyPlace("aot", KEYS[0], b"gone/a", recognised=True, note=""),
        FamilyPlace("compile", PARTNERS[0], b"gone/0", recognised=True, note=""),
        FamilyPlace("compile", PARTNERS[1], b"gone/1", recognised=True, note=""),
    )
    assert find_links(os.fsencode(tmp_path), places) == ()
    assert not is_mega(os.fsencode(tmp_path), places[1])


def test_files_that_vanish_while_times_are_read_are_left_out(mega, monkeypatch):
    parts = {(PARTNERS[n], "rank_0_0", "backbone"): 999 - n for n in (0, 1)}
    root = mega({(KEYS[0], "rank_0_0"): 1000}, parts)
    stat = os.stat

    def failing(path, **options):
        if PARTNERS[0].encode() in path:
            raise FileNotFoundError(2, "No such file or directory")
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", failing)
    assert _pairs(root) == [("aaaaaaaa", PARTNERS[1], "inferred")]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (["backbone/computation_graph.py"], True),
        (["backbone/computation_graph.py", "backbone/vllm_compile_cache.py"], False),
        (["backbone/computation_graph.py", "backbone/artifact_x"], False),
        (["backbone/computation_graph.py", "backbone/artifact_x/fxgraph/a"], False),
        (["backbone/cache_key_factors.json"], False),
        (["vllm_compile_cache.py", "inductor_cache/x"], False),
        ([], False),
    ],
)
def test_what_is_a_mega_partner(make_root, files, expected):
    root = make_root({f"torch_compile_cache/{PARTNERS[0]}/rank_0_0/{name}": b"x" for name in files})
    place = FamilyPlace(
        "compile",
        PARTNERS[0],
        f"torch_compile_cache/{PARTNERS[0]}".encode(),
        recognised=True,
        note="",
    )
    assert is_mega(root, place) is expected


def test_ranks_and_parts_are_in_order_and_links_are_not_followed(make_root, tmp_path):
    root = make_root({
        "f/rank_10_0/model": b"", "f/rank_2_0/backbone/x": b"", "f/rank_0_1_dev3/x": b"",
        "f/rank_x/x": b"", "f/rank_3_0": b"a file",
    })  # fmt: skip
    os.symlink(tmp_path, os.path.join(root, b"f/rank_4_0"))
    place = FamilyPlace("compile", "f", b"f", recognised=True, note="")
    assert ranks_of(root, place) == (Rank(2, 0), Rank(10, 0), Rank(0, 1, 3))
    assert [part.path for part in parts_of(root, place)] == [
        b"rank_2_0/backbone", b"rank_10_0", b"rank_0_1_dev3",
    ]  # fmt: skip
