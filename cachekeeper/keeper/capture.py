"""Capturing a family: every byte of it read once, hashed, and stored where asked.

Guarantee: the result is a state that the family really had. A file that changes while it is read,
or a tree that changes between two walks, is read again, three times at most; then the root is busy.
"""

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from cachekeeper.core.attributes import Attribute, AttributeKind, AttributeList
from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import BusyError
from cachekeeper.core.manifest import Entry, Manifest
from cachekeeper.core.paths import path_below, shown
from cachekeeper.core.problem import Problem
from cachekeeper.fs.reading import ChangedWhileReadError, FileState, hash_file
from cachekeeper.fs.walk import Found, Tree, walk_tree
from cachekeeper.keeper.memory import Memory
from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.names import classify
from cachekeeper.store.objects import Objects

_ATTEMPTS = 3
_WORKERS = 2


@dataclass(frozen=True)
class CaptureOptions:
    """How to capture: into which objects (None: hash only), trusting which memory.

    `keep_temporary` also stores temporary files, for content that is about to be displaced.
    `repair` re-hashes objects that are there already and heals damaged ones from the live file;
    but not those of the inodes in `outliving`, which have another name that stays.
    """

    objects: Objects | None = None
    memory: Memory = field(default_factory=dict)
    keep_temporary: bool = False
    repair: bool = False
    outliving: frozenset[int] = frozenset()

    def repairs(self, found: Found) -> bool:
        """Tell whether the stored object of a file must be proven good."""
        return self.repair and found.status.st_ino not in self.outliving


@dataclass(frozen=True)
class Captured:
    """A family's content: manifest, attributes, remembered states, what was left out or failed."""

    place: FamilyPlace
    manifest: Manifest
    attributes: AttributeList
    memory: Memory
    problems: tuple[Problem, ...]
    left_out: dict[str, int]
    new_bytes: int
    read_bytes: int


@dataclass(frozen=True, slots=True)
class _Item:
    """What came of one walked entry."""

    attribute: Attribute | None = None
    entry: Entry | None = None
    state: FileState | None = None
    problem: Problem | None = None
    left_out: str = ""
    new_bytes: int = 0
    read_bytes: int = 0


def capture_family(top: bytes, place: FamilyPlace, options: CaptureOptions) -> Captured:
    """Capture the family at the absolute path `top`; raises BusyError, OSError."""
    for attempt in range(_ATTEMPTS):
        tree = walk_tree(top)
        started_ns = time.time_ns()
        try:
            items = _take_all(top, place, tree, options)
        except ChangedWhileReadError:
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        if _same_content(tree, walk_tree(top), place):
            return _assemble(place, tree, items, started_ns)
    raise BusyError(
        f"{shown(top)} changes while it is read", "stop its writer, or try again when it is done"
    )


def _take_all(top: bytes, place: FamilyPlace, tree: Tree, options: CaptureOptions) -> list[_Item]:
    """Take every entry; two threads, because reading and hashing leave the interpreter's lock."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        return list(pool.map(lambda found: _take(top, place, found, options), tree.entries))


def _take(top: bytes, place: FamilyPlace, found: Found, options: CaptureOptions) -> _Item:
    if found.kind == "dir":
        # A directory of temporary files is none of the content's; one named *.tmp may hold content.
        is_temporary = classify(found.path + b"/x", place.kind) == "temporary"
        return _Item() if is_temporary else _Item(attribute=_attribute(found, "d"))
    if found.kind == "special":
        return _Item(problem=Problem("special-file", found.path, "not kept", "notice"))
    name_class = classify(found.path, place.kind)
    if name_class == "temporary" and not options.keep_temporary:
        return _Item(left_out="temporary")
    path = path_below(top, found.path)
    try:
        if found.kind == "link":
            return _take_link(path, found, options)
        return _take_file(path, found, name_class, options)
    except FileNotFoundError as error:
        if error.filename != path:  # not the live file: something in the store
            raise
        raise ChangedWhileReadError(
            f"{shown(path)} vanished while it was read", "try again when its writer is done"
        ) from error
    except PermissionError as error:
        if error.filename != path:
            raise
        detail = error.strerror or "permission denied"
        return _Item(problem=Problem("unreadable", found.path, detail, "damaged"))


def _take_file(path: bytes, found: Found, name_class: str, options: CaptureOptions) -> _Item:
    digest, state, new, read = _content(path, found, options)
    if name_class in ("lock", "temporary"):
        kind: AttributeKind = "k" if name_class == "lock" else "t"
        attribute = _attribute(found, kind, state.size_bytes, digest)
        return _Item(attribute, None, state, None, name_class, new, read)
    entry = Entry(found.path, "f", state.size_bytes, digest)
    return _Item(_attribute(found, "f"), entry, state, new_bytes=new, read_bytes=read)


def _content(path: bytes, found: Found, options: CaptureOptions) -> tuple[str, FileState, int, int]:
    """Return a file's digest, state, and how many bytes were new to the store and were read."""
    known = options.memory.get(found.path)
    state = FileState.of(found.status)
    objects = options.objects
    digest = known[1] if known is not None and known[0] == state else None
    if digest and (objects is None or _is_stored(objects, digest, found, options)):
        return digest, state, 0, 0
    if objects is None:
        digest, state = hash_file(path)
        return digest, state, 0, state.size_bytes
    stored, state = objects.put_file(path)
    if stored.new_bytes == 0 and not _is_stored(objects, stored.digest, found, options):
        objects.replace_damaged(stored.digest, path)
    return stored.digest, state, stored.new_bytes, state.size_bytes


def _is_stored(objects: Objects, digest: str, found: Found, options: CaptureOptions) -> bool:
    """Tell whether an object is there, and is whole where that matters."""
    if options.repairs(found):
        return objects.verify(digest) is None
    return objects.has(digest, found.status.st_size)


def _take_link(path: bytes, found: Found, options: CaptureOptions) -> _Item:
    text = os.readlink(path)
    if options.objects is None:
        digest, new = digest_of(text), 0
    else:
        stored = options.objects.put_bytes(text)
        digest, new = stored.digest, stored.new_bytes
    entry = Entry(found.path, "l", len(text), digest)
    return _Item(_attribute(found, "l"), entry, new_bytes=new, read_bytes=len(text))


def _attribute(
    found: Found, kind: AttributeKind, size_bytes: int = 0, digest: str = ""
) -> Attribute:
    status = found.status
    mode = status.st_mode & 0o7777
    owner = (status.st_uid, status.st_gid)
    return Attribute(found.path, kind, mode, *owner, status.st_mtime_ns, size_bytes, digest)


def _same_content(before: Tree, after: Tree, place: FamilyPlace) -> bool:
    """Tell whether two walks saw the same content; locks and temporary files may come and go."""
    return _content_states(before, place) == _content_states(after, place)


def _content_states(tree: Tree, place: FamilyPlace) -> list[tuple[bytes, FileState]]:
    return [
        (found.path, FileState.of(found.status))
        for found in tree.entries
        if found.kind in ("file", "link")
        and classify(found.path, place.kind) in ("content", "mutable")
    ]


def _digest_of(item: _Item) -> str:
    """Return the digest of an item's bytes, wherever it is kept."""
    if item.entry:
        return item.entry.digest
    return item.attribute.digest if item.attribute else ""


def _assemble(place: FamilyPlace, tree: Tree, items: Iterable[_Item], started_ns: int) -> Captured:
    items = list(items)
    problems = [item.problem for item in items if item.problem]
    problems += [
        Problem("unreadable", found.path, found.reason, "damaged") for found in tree.unreadable
    ]
    memory = {
        item.attribute.path: (item.state, _digest_of(item))
        for item in items
        if item.attribute and item.state and item.state.is_settled_at(started_ns)
    }
    # Two threads may store two equal files at once: the bytes are new once.
    new_bytes = {_digest_of(item): item.new_bytes for item in items if item.new_bytes}
    classes = [item.left_out for item in items if item.left_out]
    return Captured(
        place=place,
        manifest=Manifest.of(item.entry for item in items if item.entry),
        attributes=AttributeList.of(item.attribute for item in items if item.attribute),
        memory=memory,
        problems=tuple(problems),
        left_out={name: classes.count(name) for name in ("lock", "temporary")},
        new_bytes=sum(new_bytes.values()),
        read_bytes=sum(item.read_bytes for item in items),
    )
