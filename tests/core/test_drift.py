import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import PATHS, unhurried

from cachekeeper.core.difference import FileChange
from cachekeeper.core.drift import (
    DRIFTS,
    HARMLESS,
    FamilyFacts,
    family_drift,
    unit_drift,
    worst_drift,
)

DRIFT_LISTS = st.lists(st.sampled_from(DRIFTS), max_size=5)
CHANGES = st.builds(
    FileChange,
    PATHS,
    st.sampled_from(["added", "removed", "changed"]),
    st.none(),
    st.none(),
    st.booleans(),
)


def _key(path):
    """Name a key directory by everything before the last slash; a top-level file has none."""
    return path.rpartition(b"/")[0] or None


def _change(path, change, *, mutable=False):
    return FileChange(path, change, None, None, mutable)


def _drift(*changes, pinned=(), present=True, damaged=False, incomplete=False):
    facts = FamilyFacts("aot", present, changes, damaged, incomplete)
    return family_drift(facts, pinned, _key)


def test_the_order_of_drift_is_from_harmless_to_worst():
    """The words stand in the order in which one outdoes the other, the harmless ones first."""
    expected = ("intact", "grown", "shadowed", "overwritten", "incomplete", "damaged", "gone")
    assert expected == DRIFTS
    assert set(DRIFTS[:2]) == HARMLESS


@unhurried
@given(DRIFT_LISTS)
def test_the_worst_is_one_of_them_and_none_is_worse(drifts):
    """The worst of some drifts is among them, and nothing is intact."""
    worst = worst_drift(drifts)
    assert worst in (drifts or ["intact"])
    assert all(DRIFTS.index(drift) <= DRIFTS.index(worst) for drift in drifts)


@unhurried
@given(DRIFT_LISTS, DRIFT_LISTS)
def test_more_families_never_make_a_unit_better(first, second):
    """The worst of all is the worst of the worst of parts, whatever the order."""
    expected = worst_drift([worst_drift(second), worst_drift(first)])
    assert expected == worst_drift(first + second)


@unhurried
@given(st.lists(CHANGES, max_size=4), st.lists(PATHS, max_size=3), st.booleans(), st.booleans())
def test_mutable_files_never_count(changes, pinned, is_damaged, is_incomplete):
    """A family's drift is the same with and without the changes of mutable files."""
    lasting = [change for change in changes if not change.mutable]
    flags = {"damaged": is_damaged, "incomplete": is_incomplete}
    assert _drift(*lasting, pinned=pinned, **flags) == _drift(*changes, pinned=pinned, **flags)


@unhurried
@given(st.lists(CHANGES, max_size=4), CHANGES, st.lists(PATHS, max_size=3))
def test_one_more_change_never_makes_a_family_better(changes, more, pinned):
    """A further change leaves the drift or makes it worse."""
    before = _drift(*changes, pinned=pinned)
    after = _drift(*changes, more, pinned=pinned)
    assert DRIFTS.index(before) <= DRIFTS.index(after)


def test_nothing_changed_is_intact():
    """Equal content is intact, and so is content of which only mutable files changed."""
    mutable = _change(b"inductor_cache/ab/x.best_config", "changed", mutable=True)
    assert _drift() == "intact"
    assert _drift(mutable) == "intact"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_change(b"key2/new", "added"), "grown"),
        (_change(b"new", "added"), "grown"),
        (_change(b"key1/new", "added"), "shadowed"),
        (_change(b"key1/old", "changed"), "overwritten"),
        (_change(b"key1/old", "removed"), "incomplete"),
    ],
)
def test_each_change_has_its_word(change, expected):
    """Added under a new key, under a pinned key, changed and removed are told apart."""
    assert expected == _drift(change, pinned=[b"key1/old", b"model"])


def test_the_worst_change_decides():
    """Of several changes the worst one names the drift."""
    added, changed = _change(b"new", "added"), _change(b"key1/old", "changed")
    removed = _change(b"gone", "removed")
    assert _drift(added, changed) == "overwritten"
    assert _drift(added, changed, removed) == "incomplete"
    assert _drift(added, incomplete=True) == "incomplete"


def test_damage_outdoes_changes_and_absence_outdoes_damage():
    """A family that is not there is gone, whatever else was said of it."""
    removed = _change(b"gone", "removed")
    assert _drift(removed, damaged=True, incomplete=True) == "damaged"
    assert _drift(removed, damaged=True, present=False) == "gone"


@pytest.mark.parametrize(
    ("families", "expected"),
    [
        ([], "intact"),
        ([("aot", "intact"), ("compile", "intact")], "intact"),
        ([("aot", "grown"), ("compile", "overwritten")], "overwritten"),
        ([("aot", "gone"), ("compile", "intact")], "gone"),
        ([("aot", "intact"), ("compile", "gone")], "incomplete"),
        ([("aot", "damaged"), ("compile", "gone")], "damaged"),
        ([("aot", "gone"), ("compile", "gone")], "gone"),
    ],
)
def test_a_unit_has_the_worst_drift_of_its_families(families, expected):
    """Without its aot family a unit is gone, without a partner it is incomplete."""
    assert expected == unit_drift(families)
