import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from cachekeeper.core.errors import UsageError
from cachekeeper.layouts.families import FamilyPlace, find_families

AOT = "c15860dd" * 8
AOT_CACHE = "torch_compile_cache/torch_aot_compile"


def _places(root):
    return {place.path: place for place in find_families(root).places}


def _warnings(root):
    return {warning.path: warning.code for warning in find_families(root).warnings}


def test_families_of_a_usual_root(make_root):
    root = make_root({
        f"{AOT_CACHE}/{AOT}/rank_0_0/model": b"m",
        "torch_compile_cache/0c79dd93f4/rank_0_0/backbone/computation_graph.py": b"g",
    })  # fmt: skip
    aot_path = f"{AOT_CACHE}/{AOT}".encode()
    compile_path = b"torch_compile_cache/0c79dd93f4"

    scan = find_families(root)

    assert scan.places == (
        FamilyPlace("compile", "0c79dd93f4", compile_path, recognised=True, note=""),
        FamilyPlace("aot", AOT, aot_path, recognised=True, note=""),
    )
    assert scan.warnings == ()


@pytest.mark.parametrize(
    "name",
    [
        "modelinfos/x.json",
        "dummy_cache/",
        "gpu_p2p_access_cache_for_0,1.json",
        "deep_gemm/cache/k",
        "flashinfer_autotune_cache/0.6/90/x.json",
        "startup_plan/startup_plan_0123456789abcdef.json",
        "rocm_segmented_attention/",
    ],
)
def test_known_companions_are_recognised_with_a_note(make_root, name):
    root = make_root({name: b"{}"})
    (place,) = find_families(root).places
    entry = name.split("/", maxsplit=1)[0]

    assert (place.kind, place.key, place.path) == ("other", entry, entry.encode())
    assert place.recognised
    assert place.note
    assert not find_families(root).warnings


def test_unknown_entries_are_kept_and_said_at_the_smallest_level(make_root):
    root = make_root({
        "notes.txt": b"mine",
        "my dir/x": b"x",
        "torch_compile_cache/README": b"r",
        f"{AOT_CACHE}/stray.json": b"{}",
        "torch_aot_compile/old": b"vLLM 0.11",
    })  # fmt: skip

    places = _places(root)

    assert set(places) == {
        b"notes.txt", b"my dir", b"torch_compile_cache/README", f"{AOT_CACHE}/stray.json".encode(),
        b"torch_aot_compile",
    }  # fmt: skip
    assert {place.kind for place in places.values()} == {"other"}
    assert not any(place.recognised for place in places.values())
    assert places[b"my dir"].key == "my%20dir"
    assert "before 0.17" in places[b"torch_aot_compile"].note
    assert _warnings(root) == dict.fromkeys(places, "unknown-entry")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{AOT_CACHE}/{AOT}", "unknown-entry"),  # a file
        (f"{AOT_CACHE}/{AOT.upper()}/x", "unknown-entry"),
        (f"{AOT_CACHE}/{AOT[:63]}/x", "unknown-entry"),
        (f"{AOT_CACHE}/{AOT}\n/x", "renamed-family"),
        (f"{AOT_CACHE}/c15860…slow-after-timing-noop/x", "renamed-family"),
        (f"{AOT_CACHE}/{AOT}.slow/x", "renamed-family"),
        (f"{AOT_CACHE}/before-{AOT}/x", "renamed-family"),
        (f"{AOT_CACHE}/fast/rank_0_0/model", "renamed-family"),
        ("torch_compile_cache/0c79dd93f4.bak/x", "renamed-family"),
        ("torch_compile_cache/0c79dd93f/x", "unknown-entry"),
        ("torch_compile_cache/0c79dd93f4", "unknown-entry"),  # a file
        ("torch_compile_cache", "unknown-entry"),  # a file
    ],
)
def test_what_only_looks_like_a_family_is_other(make_root, path, code):
    root = make_root({path: b"x"})
    (place,) = find_families(root).places
    assert place.kind == "other"
    assert _warnings(root) == {place.path: code}


def test_names_that_are_no_text_have_a_reversible_key(make_root):
    root = make_root({})
    os.mkdir(os.path.join(root, b"\xff\n%"))
    (place,) = find_families(root).places
    assert (place.path, place.key) == (b"\xff\n%", "%FF%0A%25")


def test_links_in_the_place_of_a_family_are_not_followed(make_root, tmp_path):
    target = tmp_path / "elsewhere"
    (target / "rank_0_0").mkdir(parents=True)
    root = make_root({f"{AOT_CACHE}/": b""})
    for path in (f"{AOT_CACHE}/{AOT}", "torch_compile_cache/0c79dd93f4", "modelinfos"):
        os.symlink(target, os.path.join(root, path.encode()))

    scan = find_families(root)

    assert [place.kind for place in scan.places] == ["other"] * 3
    assert [warning.code for warning in scan.warnings] == ["symlink"] * 3


def test_a_link_in_the_place_of_the_compile_cache_is_kept_as_a_link(make_root, tmp_path):
    root = make_root({})
    os.symlink(tmp_path, os.path.join(root, b"torch_compile_cache"))
    assert _warnings(root) == {b"torch_compile_cache": "symlink"}


def test_own_files_are_skipped_in_the_root_alone(make_root):
    root = make_root({".cachekeeper-intent": b"x", "torch_compile_cache/.cachekeeper": b"x"})
    assert set(_places(root)) == {b"torch_compile_cache/.cachekeeper"}


@pytest.mark.parametrize("root", [b"/nonexistent/cache", b"", b"a\0b", b"/dev/null"])
def test_a_root_that_is_no_directory_is_refused_with_a_hint(root):
    with pytest.raises(UsageError) as caught:
        find_families(root)
    assert "VLLM_CACHE_ROOT" in caught.value.hint


def test_an_unreadable_directory_is_a_warning(make_root, monkeypatch):
    root = make_root({f"{AOT_CACHE}/x": b"", "notes": b""})
    closed = os.path.join(root, b"torch_compile_cache")
    scandir = os.scandir

    def refusing(path):
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert _warnings(root) == {b"notes": "unknown-entry", b"torch_compile_cache": "unreadable"}


def test_an_unreadable_root_is_a_warning(make_root, monkeypatch):
    def refusing(_path):
        raise PermissionError(13, "Permission denied")

    root = make_root({})
    monkeypatch.setattr(os, "scandir", refusing)
    assert _warnings(root) == {b"": "unreadable"}


def test_an_unreadable_stranger_is_not_taken_for_a_renamed_family(make_root, monkeypatch):
    root = make_root({f"{AOT_CACHE}/stranger/rank_0_0/model": b"m"})
    scandir = os.scandir

    def refusing(path):
        if path.endswith(b"stranger"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert list(_warnings(root).values()) == ["unknown-entry"]


def test_entries_whose_type_cannot_be_asked_are_other(make_root, monkeypatch):
    root = make_root({"torch_compile_cache/0c79dd93f4/x": b""})

    class Failing:
        name = b"torch_compile_cache"
        path = b""

        def is_dir(self, **_):
            raise OSError(5, "Input/output error")

        def is_symlink(self):
            raise OSError(5, "Input/output error")

    class Listing(list):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    monkeypatch.setattr(os, "scandir", lambda _path: Listing([Failing()]))
    assert _warnings(root) == {b"torch_compile_cache": "unknown-entry"}


def _as_another_user(code, *arguments):
    """Run Python code as a user who owns nothing; skip where that user cannot."""
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    python = [*drop, sys.executable, "-c"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = partial(subprocess.run, capture_output=True, text=True, check=False, env=environment)
    try:
        if run([*python, "import cachekeeper.layouts.families"]).returncode:
            pytest.skip("the other user may not run this Python")
    except FileNotFoundError:
        pytest.skip("no setpriv here")
    return run([*python, code, *arguments]).stdout.strip()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_warnings_for_what_is_closed():
    code = (
        "import sys; from cachekeeper.layouts.families import find_families;"
        "print([(w.code, w.path) for w in find_families(sys.argv[1].encode()).warnings])"
    )
    # pytest's own directory is closed to other users, and stays so.
    with tempfile.TemporaryDirectory() as root:
        closed = Path(root, AOT_CACHE)
        closed.mkdir(parents=True)
        closed.chmod(0o700)
        Path(root).chmod(0o755)
        printed = _as_another_user(code, root)
    assert printed == f"[('unreadable', {AOT_CACHE.encode()!r})]"


@pytest.mark.parametrize(
    ("label", "aot", "compiled"),
    [
        ("A", ["d4aaeaf4"], ["0c79dd93f4"]),
        ("A3", ["01a6245e", "d4aaeaf4"], ["0c79dd93f4", "286c2d0883", "eb3d177080"]),
        ("A4", ["d4aaeaf4"], ["0c79dd93f4"]),
        ("Ap", ["d4aaeaf4"], ["0c79dd93f4"]),
        ("LT", ["fd93a1b8"], ["faa6b99152"]),
        ("MT3", ["6d17311f", "b3433952"], ["5bcf4ab025", "770b08c04a"]),
    ],
)
def test_families_of_real_trees(real_tree, label, aot, compiled):
    scan = find_families(real_tree(label))
    assert [place.key[:8] for place in scan.places if place.kind == "aot"] == aot
    assert [place.key for place in scan.places if place.kind == "compile"] == compiled
    assert [place.key for place in scan.places if place.kind == "other"] == ["modelinfos"]
    assert scan.warnings == ()
