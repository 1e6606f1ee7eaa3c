import os
import pickle
import zlib
from pathlib import Path

import pytest

from cachekeeper.inspect.health import check_contents

MODEL = b"rank_0_0/model"
ARTIFACT = b"rank_0_0/backbone/artifact_compile_range_1_8_subgraph_0"
PICKLE = pickle.dumps({"a": [1, 2, 3]})


def _artifact(payload=b"payload"):
    magic = b"CacheCompiledArtifact"
    body = len(magic).to_bytes(8, "big") + magic + payload
    return zlib.crc32(body).to_bytes(4, "big") + body


@pytest.fixture
def check(tmp_path):
    """Give the problems of a family that holds {path: content}."""

    def checked(files, **options):
        for path, content in files.items():
            target = tmp_path / os.fsdecode(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        sizes = [(path, len(content)) for path, content in files.items()]
        return check_contents(os.fsencode(tmp_path), sizes, **options)

    return checked


def _codes(problems):
    return [(problem.code, problem.path, problem.severity) for problem in problems]


@pytest.mark.parametrize("label", ["A", "A3", "A4", "Ap", "LT", "MT3"])
def test_real_trees_are_whole_inside(real_tree, label):
    top = Path(os.fsdecode(real_tree(label))) / "torch_compile_cache"
    families = [*top.glob("[0-9a-f]*"), *top.glob("torch_aot_compile/*")]
    assert families
    for family in families:
        files = [path for path in family.rglob("*") if path.is_file()]
        sizes = [(os.fsencode(path.relative_to(family)), path.stat().st_size) for path in files]
        assert check_contents(os.fsencode(family), sizes) == ()


def test_good_files_are_no_problem(check):
    assert check({MODEL: PICKLE, ARTIFACT: _artifact()}) == ()


@pytest.mark.parametrize(
    ("content", "code", "severity"),
    [
        (PICKLE[:-1], "truncated-model", "damaged"),
        (PICKLE + b"x", "trailing-bytes", "damaged"),
        (PICKLE[:2] + bytes(50), "damaged-model", "damaged"),
        (bytes(5000), "damaged-model", "damaged"),
        (bytes(3), "damaged-model", "damaged"),
        (b"another tool's format", "unrecognised-model", "notice"),
    ],
)
def test_models_that_are_not_whole(check, content, code, severity):
    assert _codes(check({MODEL: content})) == [(code, MODEL, severity)]


def test_an_empty_model_is_left_to_the_check_of_sizes(check):
    assert check({MODEL: b"", ARTIFACT: b""}) == ()


def test_a_model_that_was_emptied_after_its_size_was_taken(check, tmp_path):
    check({MODEL: b""})
    problems = check_contents(os.fsencode(tmp_path), [(MODEL, 17)])
    assert _codes(problems) == [("empty-model", MODEL, "damaged")]


@pytest.mark.parametrize("path", [ARTIFACT, b"rank_0_0/artifact_x"])
def test_an_artifact_with_a_wrong_checksum_is_damaged(check, path):
    assert _codes(check({path: _artifact() + b"x"})) == [("damaged-artifact", path, "damaged")]
    assert check({path: b"another head"}) == ()


@pytest.mark.parametrize(
    "path",
    [
        b"inductor_cache/model",
        b"rank_0_0/model.77.tmp",
        b"rank_0_0/sub/model",
        b"rank_0_0/backbone/artifact_x.tmp",
        b"rank_0_0/backbone/artifact_x.lock",
        b"rank_0_0/backbone/artifact_x/fxgraph/ab/f/1",
    ],
)
def test_other_files_are_not_opened(path, monkeypatch):
    monkeypatch.setattr(os, "open", None)
    assert check_contents(b"/nonexistent", [(path, 5)]) == ()


def test_trusted_files_are_not_read(check):
    asked = []

    def trusted(path):
        asked.append(path)
        return path == MODEL

    files = {MODEL: PICKLE[:-1], ARTIFACT: _artifact() + b"x", b"other": b"x"}
    assert _codes(check(files, trusted=trusted)) == [("damaged-artifact", ARTIFACT, "damaged")]
    assert asked == [MODEL, ARTIFACT]


def test_what_cannot_be_read_is_a_warning(tmp_path):
    (tmp_path / "rank_0_0").mkdir()
    (tmp_path / "rank_1_0").mkdir()
    os.mkfifo(tmp_path / "rank_0_0" / "model")
    (tmp_path / "rank_1_0" / "model").symlink_to("/etc/hostname")
    files = [(MODEL, 5), (b"rank_1_0/model", 5), (b"rank_2_0/model", 5)]
    problems = check_contents(os.fsencode(tmp_path), files)
    assert {problem.code for problem in problems} == {"unreadable-file"}
    assert [problem.detail for problem in problems] == [
        "not a regular file",
        "a symbolic link, which is not followed",
        "No such file or directory",
    ]
    assert [problem.path for problem in problems] == [path for path, _ in files]
    assert {problem.severity for problem in problems} == {"warning"}


def test_nothing_is_unpickled(check, tmp_path):
    witness = tmp_path / "witness"

    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(witness),)

    assert check({MODEL: pickle.dumps(Hostile())}) == ()
    assert not witness.exists()
