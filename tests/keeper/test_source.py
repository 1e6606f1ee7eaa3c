"""Stored content as a source: complete, of this owner, and two lists that fit each other."""

import os
from dataclasses import replace

import builders
import pytest

from cachekeeper.core.attributes import Attribute, AttributeList
from cachekeeper.core.errors import DamagedStoreError, RefusedError
from cachekeeper.core.manifest import Entry, Manifest
from cachekeeper.keeper.capture import CaptureOptions, capture_family
from cachekeeper.keeper.facts import keep_family
from cachekeeper.keeper.live import load_attributes, load_manifest
from cachekeeper.keeper.source import check_owners, check_present, stage_parts
from cachekeeper.layouts.families import FamilyPlace

OTHER = FamilyPlace("other", "odd", b"odd", recognised=False, note="")
MINE = (os.geteuid(), {os.getegid()})


@pytest.fixture
def family(top, store):
    """Give a stored family of a file, a link and a lock."""
    clock = builders.Clock()
    builders.write(top + b"/odd/sub/file", b"content", clock.tick())
    builders.write(top + b"/odd/held.lock", b"pid 1", clock.tick())
    builders.link(top + b"/odd/link", b"sub/file", clock.tick())
    content = capture_family(top + b"/odd", OTHER, CaptureOptions(objects=store.objects))
    return keep_family(store, content, (), ())


def with_lists(store, family, manifest=None, attributes=None):
    """Return the family with other lists in place of its own."""
    if manifest is not None:
        family = replace(family, build=store.objects.put_bytes(manifest.to_bytes()).digest)
    if attributes is not None:
        digest = store.objects.put_bytes(attributes.to_bytes()).digest
        family = replace(family, attributes=digest)
    return family


def test_whole_content_may_be_staged(store, family):
    """Directories and files come with their attributes and the place of their bytes."""
    check_present(store, family)
    directories, files = stage_parts(store, family, b"/nowhere", None)
    assert [directory.path for directory in directories] == [b"", b"sub"]
    assert {file.attribute.path: file.attribute.kind for file in files} == {
        b"sub/file": "f",
        b"link": "l",
        b"held.lock": "k",
    }
    assert all(os.path.exists(file.stored) for file in files)
    assert all(file.live is None for file in files)


def test_equal_live_files_may_be_linked(top, store, family):
    """A live file of equal digest is offered, with the state it was hashed in."""
    live = capture_family(top + b"/odd", OTHER, CaptureOptions())
    offered = {f.attribute.path: f.live for f in stage_parts(store, family, top + b"/odd", live)[1]}
    assert offered == {b"sub/file": top + b"/odd/sub/file", b"link": None, b"held.lock": None}
    builders.write(top + b"/odd/sub/file", b"other", 1)
    live = capture_family(top + b"/odd", OTHER, CaptureOptions())
    _directories, files = stage_parts(store, family, top + b"/odd", live)
    assert all(file.live is None for file in files)


@pytest.mark.parametrize("data", [b"content", b"sub/file", b"pid 1"])
def test_each_object_must_be_there(store, family, data):
    """A file's, a link's and a lock's object are needed alike."""
    os.remove(store.objects.path(builders.digest(data)))
    with pytest.raises(DamagedStoreError, match="is missing or has another size"):
        check_present(store, family)


def test_lists_that_disagree_are_damage(store, family):
    """A file without attributes, attributes without a file, and another kind are refused."""
    manifest = load_manifest(store, family.build)
    attributes = load_attributes(store, family.attributes)
    extra = Manifest.of((*manifest.entries, Entry(b"more", "f", 1, builders.digest(b"x"))))
    fewer = Manifest.of(e for e in manifest.entries if e.kind == "l")
    links = (replace(a, kind="l") if a.kind == "f" else a for a in attributes.entries)
    kinds = AttributeList.of(links)
    for wrong in (
        with_lists(store, family, manifest=extra),
        with_lists(store, family, manifest=fewer),
        with_lists(store, family, attributes=kinds),
    ):
        with pytest.raises(DamagedStoreError, match="disagree about"):
            stage_parts(store, wrong, b"/nowhere", None)


def test_only_root_gives_to_others(store, family):
    """Another owner's content is refused for everybody but root, temporary files apart."""
    check_owners(store, family, *MINE)
    attributes = load_attributes(store, family.attributes).entries
    others = AttributeList.of(replace(a, uid=4711) for a in attributes)
    theirs = with_lists(store, family, attributes=others)
    check_owners(store, theirs, 0, {0})
    with pytest.raises(RefusedError, match="belongs to uid 4711"):
        check_owners(store, theirs, 12345, {12345})
    group = AttributeList.of(replace(a, uid=12345, gid=99) for a in attributes)
    with pytest.raises(RefusedError, match="gid 99"):
        check_owners(store, with_lists(store, family, attributes=group), 12345, {12345})
    temporary = Attribute(b"x.tmp", "t", 0o600, 4711, 4711, 1, 0, builders.digest(b""))
    mine = AttributeList.of((*(replace(a, uid=12345, gid=12345) for a in attributes), temporary))
    check_owners(store, with_lists(store, family, attributes=mine), 12345, {12345})


@pytest.mark.parametrize("load", [load_manifest, load_attributes])
def test_an_object_that_is_no_list(store, load):
    """Whole bytes that are no list are damage of the store, not a bug."""
    digest = store.objects.put_bytes(b"anything").digest
    with pytest.raises(DamagedStoreError, match="is not a"):
        load(store, digest)
