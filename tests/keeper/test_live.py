"""What stands in a root, read once a command, and its indexes from the store where unchanged."""

import os

import builders
import pytest

from cachekeeper.core.errors import UnknownReferenceError, UsageError
from cachekeeper.keeper import live
from cachekeeper.keeper.live import Looker, compare_unit, outline_of, pinned_paths
from cachekeeper.keeper.live_unit import find_live_unit, live_content, see_live_unit
from cachekeeper.keeper.resolve import resolve
from cachekeeper.ops.pin import PinOptions, execute_pin, plan_pin
from cachekeeper.ops.snapshot import execute_snapshot, plan_snapshot

FIRST, SECOND = builders.unit_of("first"), builders.unit_of("second", 1, mega=True)


def snapshot(keeper):
    return execute_snapshot(keeper, plan_snapshot(keeper))


@pytest.fixture
def read_live(monkeypatch):
    """Note which indexes are read from the root."""
    read, real = [], live.read_small

    def read_small(path):
        read.append(path)
        return real(path)

    monkeypatch.setattr(live, "read_small", read_small)
    return read


def remember_all(keeper):
    """Snapshot until everything is old enough to be remembered."""
    data = b""
    while len(live.decode_memory(data)) < 8:
        snapshot(keeper)
        data = live.recall(keeper, keeper.roots()[0], FIRST.partner_path)


def test_unchanged_indexes_are_read_from_the_store(keeper, root, read_live):
    """Links of a root that did not change need no file of it."""
    before = outline_of(keeper, root).links
    assert len(read_live) == 2
    remember_all(keeper)
    read_live.clear()
    assert outline_of(keeper, root).links == before
    assert read_live == []


def test_changed_indexes_are_read_from_the_root(keeper, root, read_live):
    """A rewritten index is what counts, and a lost object is no harm."""
    remember_all(keeper)
    index = builders.part_path(root.real, FIRST, 0) + b"/vllm_compile_cache.py"
    with open(index, "rb") as file:
        data = file.read()
    builders.write(index, data + b"\n", 1_795_000_000_000_000_000)
    other = builders.part_path(root.real, FIRST, 1) + b"/vllm_compile_cache.py"
    with open(other, "rb") as file:
        os.remove(keeper.store.objects.path(builders.digest(file.read())))
    read_live.clear()
    outline_of(keeper, root)
    assert sorted(read_live) == sorted([index, other])


def test_families_are_read_once(keeper, root):
    """Two looks at one family in a command are one reading."""
    looker = Looker(keeper, outline_of(keeper, root), frozenset())
    place = looker.outline.places[0]
    assert looker.see(place) is looker.see(place)


def test_pinned_and_asked_for_families_are_hashed(keeper, root):
    """Their paths are known before anything is read."""
    assert pinned_paths(keeper, root) == frozenset()
    execute_pin(keeper, plan_pin(keeper, FIRST.aot, PinOptions()))
    assert pinned_paths(keeper, root) == frozenset(FIRST.paths)
    snapshot(keeper)
    asked = [resolve(keeper, SECOND.aot)]
    assert pinned_paths(keeper, root, asked) == frozenset((*FIRST.paths, *SECOND.paths))


def test_a_live_unit_is_content(keeper, root):
    """What stands there has families, links, a root, and nothing stored."""
    content = live_content(keeper, FIRST.partner)
    assert (content.kind, content.key, content.root) == ("live", FIRST.aot, root.identity)
    assert [family.key for family in content.families] == [FIRST.aot, FIRST.partner]
    assert builders.stored_digests(keeper.store.path) == set()
    _sight, key, seen = see_live_unit(keeper, f"live:{FIRST.aot[:9]}")
    assert (key, len(seen)) == (FIRST.aot, 2)


def test_what_is_not_live(keeper):
    """A build is no live unit, and an unknown hash none at all."""
    with pytest.raises(UsageError, match="does not name what stands in a root"):
        find_live_unit(keeper, "b:1234")
    with pytest.raises(UnknownReferenceError, match="stands in the root"):
        find_live_unit(keeper, "f" * 64)


def test_a_snapshot_of_several_units_is_compared_unit_by_unit(keeper, root):
    """Two units of different ranks are no mixed ranks of each other."""
    content = resolve(keeper, f"s:{snapshot(keeper).record.digest}")
    looker = Looker(keeper, outline_of(keeper, root), frozenset())
    compared = compare_unit(looker, content)
    assert (compared.drift, {one.drift for one in compared.families}) == ("intact", {"intact"})


def test_known_damage_is_no_drift(keeper, root):
    """Content that was stored broken is intact while it stands as it was stored."""
    builders.write(builders.model_path(root.real, FIRST, 0), b"", 1)
    snapshot(keeper)
    looker = Looker(keeper, outline_of(keeper, root), frozenset())
    assert compare_unit(looker, resolve(keeper, FIRST.aot)).drift == "intact"
