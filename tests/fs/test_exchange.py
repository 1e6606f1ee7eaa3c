import ctypes
import errno
import os
import stat

import pytest
from intents import (
    FILE,
    NEW,
    NEW_TREE,
    OLD_TREE,
    REPLACED,
    RESTORE,
    WANTED,
    content_of,
    fill,
    prepare,
)
from trees import Stop, steps_of, stop_before, tree, write

from cachekeeper.core.errors import RefusedError
from cachekeeper.fs import primitives
from cachekeeper.fs.atomic import remove_tree
from cachekeeper.fs.exchange import displaced_paths, is_exchanged, roll_back, roll_forward
from cachekeeper.fs.intent import discard, working_directory

ANEW = {b"model": b"built anew"}


@pytest.fixture(params=["exchange", "two renames"])
def file_system(request, monkeypatch):
    """Run with the real exchange, and as on a file system that has none."""
    if request.param == "two renames":
        real = primitives._renameat2

        def renameat2(source, target, flag):
            if flag == primitives._RENAME_EXCHANGE:
                ctypes.set_errno(errno.EINVAL)
                return -1
            return real(source, target, flag)

        monkeypatch.setattr(primitives, "_renameat2", renameat2)
    return request.param


@pytest.fixture
def prepared(top):
    """Give a root in which a restore was prepared: one family replaced, one new, one file."""
    return prepare(top)


def _forward(prepared):
    roll_forward(prepared.root, prepared.intent)


def _back(prepared):
    roll_back(prepared.root, prepared.intent)


def _displaced(prepared):
    """Return {target: contents that lie displaced}."""
    return {
        item.target: [
            content_of(path) for path in displaced_paths(prepared.root, prepared.intent, item)
        ]
        for item in prepared.intent.items
    }


def _contents(prepared):
    return {target: prepared.content(target) for target in WANTED}


ALL_NEW = {target: new for target, (_old, new) in WANTED.items()}
ALL_OLD = {target: old for target, (old, _new) in WANTED.items()}
ALL_DISPLACED = {target: [] if old is None else [old] for target, (old, _new) in WANTED.items()}


@pytest.mark.usefixtures("file_system")
def test_all_is_exchanged(prepared):
    """Every family is the staged one, and what stood there lies beside."""
    _forward(prepared)
    assert _contents(prepared) == ALL_NEW
    assert _displaced(prepared) == ALL_DISPLACED
    assert all(is_exchanged(prepared.root, item) for item in prepared.intent.items)


def test_missing_parents_are_made_for_everybody(prepared):
    """A new family's parents have the mode that tools give them."""
    _forward(prepared)
    assert stat.S_IMODE(os.stat(os.path.dirname(prepared.path(NEW))).st_mode) == 0o755


def test_nothing_is_exchanged_before(prepared):
    """Staged trees are not in their place, and nothing is displaced yet."""
    assert not any(is_exchanged(prepared.root, item) for item in prepared.intent.items)
    assert _displaced(prepared) == {target: [] for target in WANTED}


def test_the_directories_are_synced_after_all_exchanges(prepared):
    """A power cut after the end finds everything in its place."""
    steps = steps_of(lambda: _forward(prepared))
    assert steps[:3] == [("exchange", b"c158"), ("mkdir", b"0c79dd93f4"), ("rename-new", b"deep")]
    assert [
        ("exchange", FILE),
        ("fsync", os.path.basename(prepared.root)),
        ("fsync", b"0c79dd93f4"),
        ("fsync", b"torch_aot_compile"),
        ("fsync", os.path.basename(working_directory(prepared.root, RESTORE))),
    ] == steps[3:]


@pytest.mark.usefixtures("file_system")
def test_rolling_forward_again_changes_nothing(prepared):
    """What is exchanged already is left alone."""
    _forward(prepared)
    before = tree(prepared.root)
    again = steps_of(lambda: _forward(prepared))
    assert {name for name, _path in again} == {"fsync"}
    assert before == tree(prepared.root)


def _stop_at_each_step(top, action, judge):
    """Stop an action before its first, second, … step, in a new root each time, and judge it."""
    number = 0
    while True:
        prepared = prepare(top + b"/%d" % number)
        with stop_before(number):
            try:
                action(prepared)
            except Stop:
                stopped = True
            else:
                stopped = False
        judge(prepared)
        if not stopped:
            return number
        number += 1


@pytest.mark.parametrize("finish", [_forward, _back], ids=["forward", "back"])
def test_stopped_anywhere_it_can_be_finished_or_undone(file_system, top, finish):
    """Each family is whole at every moment, and the next command makes all of them new or old."""

    def judge(prepared):
        for target, (old, new) in WANTED.items():
            found = prepared.content(target)
            if found is None and old is not None:
                assert file_system == "two renames"
                assert [old] == _displaced(prepared)[target]
            else:
                assert found in (old, new)
        finish(prepared)
        assert (ALL_NEW if finish is _forward else ALL_OLD) == _contents(prepared)

    assert _stop_at_each_step(top, _forward, judge) >= 8


@pytest.mark.usefixtures("file_system")
@pytest.mark.parametrize("finish", [_forward, _back], ids=["forward", "back"])
def test_undoing_stopped_anywhere_can_be_finished_either_way(top, finish):
    """Rolling back may be killed too; the next command still makes all new or all old."""

    def judge(prepared):
        finish(prepared)
        assert (ALL_NEW if finish is _forward else ALL_OLD) == _contents(prepared)

    def forward_and_back(prepared):
        with primitives.before_each(lambda _name, _path: None):
            _forward(prepared)
        _back(prepared)

    assert _stop_at_each_step(top, forward_and_back, judge) >= 3


@pytest.mark.usefixtures("file_system")
def test_what_is_undone_leaves_only_litter(prepared):
    """After rolling back nothing is displaced, and the working directory can go."""
    _forward(prepared)
    _back(prepared)
    assert _displaced(prepared) == {target: [] for target in WANTED}
    discard(prepared.root, RESTORE)
    assert _contents(prepared) == ALL_OLD


def test_undoing_what_never_began_changes_nothing(prepared):
    """Where nothing was exchanged there is nothing to put back."""
    assert steps_of(lambda: _back(prepared)) == []


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EROFS, errno.EIO])
def test_an_exchange_that_is_refused_can_be_undone(top, number):
    """A mount point inside a family: what was exchanged before it is put back."""
    prepared = prepare(top)

    def refuse(_name, path):
        if path == prepared.path(FILE):
            raise OSError(number, os.strerror(number), path)

    with primitives.before_each(refuse), pytest.raises(OSError, match=FILE.decode()):
        _forward(prepared)
    assert prepared.content(REPLACED) == NEW_TREE
    _back(prepared)
    assert _contents(prepared) == ALL_OLD


def _half_done(prepared):
    """Make the state between the two renames."""
    os.rename(prepared.path(REPLACED), prepared.staged(REPLACED) + b".old")


def _renamed(prepared):
    _half_done(prepared)
    os.rename(prepared.staged(REPLACED), prepared.path(REPLACED))


def _exchanged(prepared):
    primitives.exchange(prepared.staged(REPLACED), prepared.path(REPLACED))


def _vanished(prepared):
    discarded = prepared.root + b"/.moved-away"
    os.rename(prepared.path(REPLACED), discarded)


def _built_anew(prepared):
    _vanished(prepared)
    fill(prepared.path(REPLACED), ANEW)


def _built_anew_between(prepared):
    _half_done(prepared)
    fill(prepared.path(REPLACED), ANEW)


# state: (how it comes about, what lies displaced after rolling forward, what stands after back)
STATES = {
    "not begun": (lambda _prepared: None, [OLD_TREE], OLD_TREE),
    "half done": (_half_done, [OLD_TREE], OLD_TREE),
    "exchanged": (_exchanged, [OLD_TREE], OLD_TREE),
    "renamed": (_renamed, [OLD_TREE], OLD_TREE),
    "vanished": (_vanished, [], None),
    "built anew": (_built_anew, [ANEW], ANEW),
    "built anew between": (_built_anew_between, [OLD_TREE, ANEW], ANEW),
}


@pytest.mark.usefixtures("file_system")
@pytest.mark.parametrize("state", sorted(STATES))
def test_every_state_can_be_finished(top, state):
    """From each state the family becomes new, and everything that stood there lies beside."""
    prepared = prepare(top, (REPLACED,))
    come_about, displaced, _after_back = STATES[state]
    come_about(prepared)
    _forward(prepared)
    assert prepared.content(REPLACED) == NEW_TREE
    assert {REPLACED: displaced} == _displaced(prepared)


@pytest.mark.usefixtures("file_system")
@pytest.mark.parametrize("state", sorted(STATES))
def test_every_state_can_be_undone(top, state):
    """From each state what stood there last stands there again."""
    prepared = prepare(top, (REPLACED,))
    come_about, _displaced_after, after_back = STATES[state]
    come_about(prepared)
    _back(prepared)
    assert after_back == prepared.content(REPLACED)


@pytest.mark.usefixtures("file_system")
def test_a_family_that_somebody_built_where_none_was_is_kept(top):
    """What stood nowhere when the intent was written lies displaced, never lost."""
    prepared = prepare(top, (NEW,))
    fill(prepared.path(NEW), ANEW)
    _forward(prepared)
    assert prepared.content(NEW) == NEW_TREE
    assert _displaced(prepared) == {NEW: [ANEW]}


@pytest.mark.usefixtures("file_system")
def test_building_anew_again_and_again_loses_nothing(top):
    """However often the place is taken between kill and recovery, each content lies beside."""
    prepared = prepare(top, (REPLACED,))
    contents = [{b"model": b"%d" % number} for number in range(3)]
    for number, content in enumerate(contents):
        suffix = b".old" + (b".%d" % number if number else b"")
        fill(prepared.staged(REPLACED) + suffix, content)
    _forward(prepared)
    assert {REPLACED: [*contents, OLD_TREE]} == _displaced(prepared)


@pytest.mark.parametrize("stands", [True, False])
def test_a_staged_tree_that_is_gone_is_refused(top, stands):
    """Nothing takes the place of what stands there, and the hint says where the old content is."""
    prepared = prepare(top, (REPLACED,))
    if not stands:
        _vanished(prepared)
    os.rename(prepared.staged(REPLACED), top + b"/elsewhere")
    with pytest.raises(RefusedError, match="cannot be finished") as caught:
        _forward(prepared)
    assert "in the store" in caught.value.hint
    assert (OLD_TREE if stands else None) == prepared.content(REPLACED)


def test_a_file_above_the_place_is_told(top):
    """Where a file stands in the place of a parent nothing is overwritten."""
    prepared = prepare(top, (NEW,))
    write(os.path.join(prepared.root, b"torch_compile_cache/0c79dd93f4"), b"theirs")
    with pytest.raises(OSError, match="File exists"):
        _forward(prepared)
    assert tree(prepared.root)[b"torch_compile_cache/0c79dd93f4"] == b"theirs"


def _protect(path):
    for base, _directories, _names in os.walk(path):
        os.chmod(base, 0o555)


def _modes(prepared, target):
    return [
        stat.S_IMODE(os.stat(path).st_mode)
        for path in (
            prepared.path(target),
            *displaced_paths(prepared.root, prepared.intent, prepared.intent.items[0]),
        )
    ]


@pytest.mark.usefixtures("file_system")
def test_protected_families_are_exchanged_by_their_owner(open_top, as_nobody):
    """The owner, who is not root, may have taken the write permission; modes stay as they were."""
    with as_nobody():
        prepared = prepare(open_top + b"/root", (REPLACED,))
        _protect(prepared.path(REPLACED))
        _protect(prepared.staged(REPLACED))
        _forward(prepared)
        assert prepared.content(REPLACED) == NEW_TREE
        assert _displaced(prepared) == {REPLACED: [OLD_TREE]}
        assert _modes(prepared, REPLACED) == [0o555, 0o555]
        _back(prepared)
        assert prepared.content(REPLACED) == OLD_TREE
        assert _modes(prepared, REPLACED) == [0o555]
        discard(prepared.root, RESTORE)
        assert os.listdir(prepared.root) == [b"torch_compile_cache"]
        remove_tree(prepared.root)


def test_a_link_to_a_protected_directory_is_moved_as_a_link(top):
    """A family that is a link is exchanged itself; what it leads to keeps its mode."""
    prepared = prepare(top, (REPLACED,))
    os.rename(prepared.path(REPLACED), top + b"/elsewhere")
    os.symlink(top + b"/elsewhere", prepared.path(REPLACED))
    os.chmod(top + b"/elsewhere", 0o555)
    _forward(prepared)
    assert prepared.content(REPLACED) == NEW_TREE
    assert os.path.islink(prepared.staged(REPLACED))
    assert stat.S_IMODE(os.stat(top + b"/elsewhere").st_mode) == 0o555
    os.chmod(top + b"/elsewhere", 0o755)
