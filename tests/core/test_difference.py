from hypothesis import given
from hypothesis import strategies as st
from strategies import MANIFESTS, unhurried

from cachekeeper.core.difference import FileChange, file_changes
from cachekeeper.core.digests import digest_of
from cachekeeper.core.manifest import Entry, Manifest

ONE, TWO = digest_of(b"one"), digest_of(b"two")


@st.composite
def _pairs(draw):
    """Two manifests that often share entries, or hold other bytes under one path."""
    first, second = draw(MANIFESTS), draw(MANIFESTS)
    if b"" in first.by_path() or b"" in second.by_path():
        return first, second
    kept = draw(st.lists(st.sampled_from(first.entries), unique=True)) if first.entries else []
    changed = [Entry(e.path, draw(st.sampled_from("fl")), 1, TWO) for e in kept[::2]]
    merged = {entry.path: entry for entry in (*kept, *changed)}
    return first, Manifest.of(merged.values())


def _never(_path):
    return False


def _digests(manifest):
    return {entry.path: entry.digest for entry in manifest.entries}


def _apply(changes, digests):
    """Change {path: digest} as the changes say, refusing one that does not fit."""
    after = dict(digests)
    for change in changes:
        assert change.before == after.pop(change.path, None)
        if change.after is not None:
            after[change.path] = change.after
    return after


@unhurried
@given(_pairs())
def test_applying_the_changes_gives_the_other_manifest(pair):
    """Applied to the first manifest's content, the changes give the second one's."""
    before, after = pair
    changes = file_changes(before, after, _never)
    assert _digests(after) == _apply(changes, _digests(before))


@unhurried
@given(_pairs())
def test_the_way_back_undoes_each_change(pair):
    """From second to first each change stands reversed."""
    before, after = pair
    opposite = {"added": "removed", "removed": "added", "changed": "changed"}
    expected = tuple(
        FileChange(one.path, opposite[one.change], one.after, one.before, one.mutable)
        for one in file_changes(before, after, _never)
    )
    assert expected == file_changes(after, before, _never)


@unhurried
@given(MANIFESTS)
def test_equal_manifests_have_no_changes(manifest):
    """A manifest does not differ from an equal one."""
    copy = Manifest.from_bytes(manifest.to_bytes())
    assert file_changes(manifest, copy, _never) == ()


@unhurried
@given(_pairs())
def test_nothing_differs_only_when_the_builds_are_equal_but_for_sizes(pair):
    """No change at all means: the same paths, kinds and digests."""
    before, after = pair
    expected = [(e.path, e.kind, e.digest) for e in before.entries] == [
        (e.path, e.kind, e.digest) for e in after.entries
    ]
    assert expected == (not file_changes(before, after, _never))


def test_added_removed_and_changed_files_are_told_apart():
    """Each path that differs is named once, in order, with both digests and its mutability."""
    before = Manifest.of(
        [Entry(b"same", "f", 3, ONE), Entry(b"gone", "f", 3, ONE), Entry(b"new", "f", 3, ONE)]
    )
    after = Manifest.of(
        [Entry(b"same", "f", 3, ONE), Entry(b"born", "l", 3, TWO), Entry(b"new", "f", 3, TWO)]
    )
    expected = (
        FileChange(b"born", "added", None, TWO, mutable=False),
        FileChange(b"gone", "removed", ONE, None, mutable=False),
        FileChange(b"new", "changed", ONE, TWO, mutable=True),
    )
    assert expected == file_changes(before, after, lambda path: path == b"new")


def test_a_file_that_became_a_link_has_changed():
    """A link whose target text equals the file's content is still another thing."""
    before = Manifest.of([Entry(b"a", "f", 3, ONE)])
    after = Manifest.of([Entry(b"a", "l", 3, ONE)])
    expected = (FileChange(b"a", "changed", ONE, ONE, mutable=False),)
    assert expected == file_changes(before, after, _never)
