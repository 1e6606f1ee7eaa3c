import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intents import FILE, RESTORE, prepare
from strategies import COUNTS, PATHS, unhurried
from trees import Stop, steps_of, stop_before, tree, write

from cachekeeper.core.errors import FormatError, NewerFormatError
from cachekeeper.fs.intent import (
    Intent,
    IntentItem,
    discard,
    find_working_directories,
    read_intent,
    remove_intent,
    working_directory,
    write_intent,
)

ITEMS = st.builds(IntentItem, PATHS, PATHS, COUNTS, st.none() | COUNTS)
RECORDS = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | COUNTS, max_size=3)
INTENTS = st.builds(
    Intent, st.just(RESTORE), st.text(), st.text(), st.lists(ITEMS).map(tuple), RECORDS
)


@pytest.fixture
def prepared(top):
    """Give a root in which a restore was prepared."""
    return prepare(top)


@pytest.fixture
def spoil(prepared):
    """Write an intent and change its object, or give its bytes; nothing else checks it."""
    path = os.path.join(working_directory(prepared.root, RESTORE), b"intent.json")

    def change(change):
        write_intent(prepared.root, prepared.intent)
        with open(path, "rb") as file:
            data = file.read()
        if callable(change):
            whole = json.loads(data)
            change(whole)
            change = json.dumps(whole).encode()
        write(path, data[: len(data) // 2] if change is None else change)
        return prepared.root

    return change


@unhurried
@given(INTENTS)
def test_an_intent_survives_its_file(tmp_path_factory, intent):
    """Whatever its paths, inodes and record, a written intent is read as it was."""
    root = os.fsencode(tmp_path_factory.mktemp("root"))
    os.mkdir(working_directory(root, RESTORE))
    write_intent(root, intent)
    assert intent == read_intent(root, RESTORE)


def test_the_file_is_json_that_a_person_can_read(prepared):
    """Version, restore, store, items and record, with paths in their text form."""
    write_intent(prepared.root, prepared.intent)
    with open(os.path.join(working_directory(prepared.root, RESTORE), b"intent.json")) as file:
        whole = json.load(file)
    assert sorted(whole) == ["format", "items", "record", "restore", "store", "store_path"]
    assert (whole["format"], whole["restore"]) == (1, RESTORE)
    item = prepared.intent.items[2]
    assert whole["items"][2] == {
        "target": FILE.decode(),
        "staged": "new/2",
        "staged_inode": item.staged_inode,
        "live_inode": item.live_inode,
    }


@pytest.mark.parametrize("number", range(5))
def test_writing_stopped_anywhere_leaves_a_whole_intent_or_none(prepared, number):
    """An intent is there only when it is whole."""
    with pytest.raises(Stop), stop_before(number):
        write_intent(prepared.root, prepared.intent)
    expected = prepared.intent if number == 4 else None
    assert expected == read_intent(prepared.root, RESTORE)


def test_no_intent_is_none(prepared):
    """A restore that was killed while it staged had none; so had one that never was."""
    assert read_intent(prepared.root, RESTORE) is None
    assert read_intent(prepared.root, "f" * 32) is None


def test_a_newer_format_is_refused_with_the_way_out(spoil):
    """What a newer cachekeeper began is not finished by this one."""
    root = spoil(lambda whole: whole.update(format=2, items="in another form"))
    with pytest.raises(NewerFormatError, match="newer cachekeeper") as caught:
        read_intent(root, RESTORE)
    assert caught.value.hint == "upgrade cachekeeper"


@pytest.mark.parametrize(
    "change",
    [
        None,
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"\xff",
        b"[" * 200_000,
        lambda whole: whole.pop("format"),
        lambda whole: whole.pop("store"),
        lambda whole: whole.pop("items"),
        lambda whole: whole.pop("record"),
        lambda whole: whole.update(format="1"),
        lambda whole: whole.update(restore="f" * 32),
        lambda whole: whole.update(restore=f"{RESTORE}/../../.."),
        lambda whole: whole.update(store=None),
        lambda whole: whole.update(store_path=["/"]),
        lambda whole: whole.update(items={}),
        lambda whole: whole.update(items=["%"]),
        lambda whole: whole.update(record=[]),
        lambda whole: whole["items"][0].pop("target"),
        lambda whole: whole["items"][0].pop("live_inode"),
        lambda whole: whole["items"][0].update(target=5),
        lambda whole: whole["items"][0].update(staged_inode="many"),
        lambda whole: whole["items"][0].update(staged_inode=None),
        lambda whole: whole["items"][0].update(live_inode=float("inf")),
        lambda whole: whole["items"][0].update(target="%"),
        lambda whole: whole["items"][0].update(staged="%"),
    ],
)
def test_half_or_spoilt_files_are_refused(spoil, change):
    """Anything but a whole intent of this restore is refused, and nothing is removed."""
    root = spoil(change)
    before = tree(root)
    with pytest.raises(FormatError, match="not a whole intent") as caught:
        read_intent(root, RESTORE)
    assert "keep the directory" in caught.value.hint
    assert before == tree(root)


@pytest.mark.parametrize("field", ["target", "staged"])
@pytest.mark.parametrize("path", ["../other", "/etc/passwd", "a/../../b", ".", "a//b", "a%00b"])
def test_hostile_paths_are_refused(spoil, field, path):
    """An intent never reaches beyond its root and its working directory."""
    root = spoil(lambda whole: whole["items"][0].update({field: path}))
    with pytest.raises(FormatError, match="leaves its tree"):
        read_intent(root, RESTORE)


def test_a_huge_file_is_refused_unread(spoil):
    """An intent that fills the memory is refused by its size."""
    root = spoil(b"")
    os.truncate(os.path.join(working_directory(root, RESTORE), b"intent.json"), 1 << 40)
    with pytest.raises(FormatError, match="more than"):
        read_intent(root, RESTORE)


def test_working_directories_are_found_sorted(top):
    """Every restore that left one is found, whatever else lies in the root."""
    for restore in ("b" * 32, "a" * 32):
        os.mkdir(working_directory(top, restore))
    write(top + b"/torch_compile_cache/x")
    assert find_working_directories(top) == ("a" * 32, "b" * 32)


@pytest.mark.parametrize(
    "name",
    [
        b".cachekeeper-",
        b".cachekeeper-backup",
        b".cachekeeper-" + b"a" * 31,
        b".cachekeeper-" + b"A" * 32,
        b".cachekeeper-" + b"a" * 32 + b"\n",
        b".cachekeeper-caf\xc3\xa9",
        b"cachekeeper-" + b"a" * 32,
    ],
)
def test_what_a_person_named_alike_is_not_ours(top, name):
    """A directory of a similar name is somebody's: not finished, not removed."""
    os.mkdir(top + b"/" + name)
    assert find_working_directories(top) == ()


def test_a_file_or_link_of_such_a_name_is_not_ours(top):
    """A link could lead out of the root, and what it leads to would be removed."""
    os.mkdir(top + b"/elsewhere")
    os.symlink(b"elsewhere", working_directory(top, "a" * 32))
    write(working_directory(top, "b" * 32))
    assert find_working_directories(top) == ()


def test_a_root_that_cannot_be_listed_has_none(top):
    """A missing root, or a file in its place, left nothing to finish."""
    assert find_working_directories(top + b"/missing") == ()
    assert find_working_directories(write(top + b"/file")) == ()


def test_an_intent_is_taken_back_durably(prepared):
    """Unlinked, then the directory synced; what is staged stays, as litter."""
    write_intent(prepared.root, prepared.intent)
    working = os.path.basename(working_directory(prepared.root, RESTORE))
    expected = [("unlink", b"intent.json"), ("fsync", working)]
    assert expected == steps_of(lambda: remove_intent(prepared.root, RESTORE))
    assert read_intent(prepared.root, RESTORE) is None
    assert find_working_directories(prepared.root) == (RESTORE,)


@pytest.mark.parametrize("is_written", [True, False])
def test_discarding_removes_the_intent_first(prepared, is_written):
    """Stopped anywhere, no intent stands beside trees of which a part is gone."""
    if is_written:
        write_intent(prepared.root, prepared.intent)
    before = tree(working_directory(prepared.root, RESTORE))
    number = 0
    while find_working_directories(prepared.root):
        with stop_before(number):
            try:
                discard(prepared.root, RESTORE)
            except Stop:
                number += 1
        if read_intent(prepared.root, RESTORE) is not None:
            assert before == tree(working_directory(prepared.root, RESTORE))
    assert number > 0
    assert prepared.content(FILE) == b"old"
