"""What stands in a root now, against what is pinned or stored: live units and their drift."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from cachekeeper.core.attributes import Attribute, AttributeList
from cachekeeper.core.difference import FileChange, file_changes
from cachekeeper.core.drift import Drift, FamilyFacts, family_drift, unit_drift, worst_drift
from cachekeeper.core.errors import DamagedStoreError, FormatError
from cachekeeper.core.manifest import Manifest
from cachekeeper.core.paths import parse_path, path_text
from cachekeeper.core.problem import Problem
from cachekeeper.fs.reading import FileState
from cachekeeper.keeper.capture import CaptureOptions
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily
from cachekeeper.keeper.memory import Memory, decode_health, decode_memory, encode_memory
from cachekeeper.keeper.resolve import Content
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import Outline, Seen, outline, see_family, see_unit
from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.listing import SMALL_FILE_BYTES, read_small
from cachekeeper.layouts.names import candidate_key, classify
from cachekeeper.store.store import Store

_LIST_LIMIT_BYTES = 256 << 20


@dataclass(frozen=True)
class FamilyComparison:
    """One pinned family against what stands in its place.

    `odd` are files of the right content with another mode or owner than they were kept with.
    """

    family: KeptFamily
    seen: Seen | None
    changes: tuple[FileChange, ...]
    drift: Drift
    odd: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class UnitComparison:
    """A pinned or stored unit against the live one; `newcomers` are partners the pin has not."""

    content: Content
    drift: Drift
    families: tuple[FamilyComparison, ...]
    newcomers: tuple[FamilyPlace, ...] = ()


@dataclass
class Looker:
    """Reads families of one root at most once per command.

    Families of pinned units are always hashed; others may be answered from memory.
    """

    keeper: Keeper
    outline: Outline
    pinned: frozenset[bytes]
    objects_too: bool = False
    _seen: dict[bytes, Seen] = field(default_factory=dict)
    _recalled: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def root(self) -> Root:
        """Return the root that is looked at."""
        return self.outline.root

    def see(self, place: FamilyPlace) -> Seen:
        """Return a family as it stands now; raises BusyError."""
        if place.path not in self._seen:
            data = recall(self.keeper, self.root, place.path)
            memory = {} if place.path in self.pinned else decode_memory(data)
            store = self.keeper.store if self.objects_too else None
            options = CaptureOptions(
                objects=store.objects if store else None,
                memory=memory,
                repair=self.objects_too and place.path in self.pinned,
            )
            self._seen[place.path] = see_family(self.root, place, options, decode_health(data))
            self._recalled[place.path] = data
        return self._seen[place.path]

    def see_unit(self, places: Iterable[FamilyPlace]) -> tuple[Seen, ...]:
        """Return the families of one unit, with what is wrong between them."""
        return see_unit(self.root, [self.see(place) for place in places])

    def remember(self) -> None:
        """Remember the digests and problems of all that was seen, for the next command."""
        if not self.keeper.has_store:
            return
        items = {
            path_text(path): encode_memory(seen.content.memory, seen.health)
            for path, seen in self._seen.items()
        }
        news = {
            path: data for path, data in items.items() if data != self._recalled[parse_path(path)]
        }
        self.keeper.catalogue.remember(self.root.identity, news)


def recall(keeper: Keeper, root: Root, family: bytes) -> bytes:
    """Return what is remembered of a family, nothing where nothing is."""
    if not keeper.has_store:
        return b""
    return keeper.catalogue.remembered(root.identity, path_text(family)) or b""


def outline_of(keeper: Keeper, root: Root) -> Outline:
    """Return what stands in a root; an index that did not change is read from the store."""
    memories: dict[bytes, Memory] = {}

    def read(path: bytes) -> bytes:
        family, inside = _split_index(os.path.relpath(path, root.real))
        if family not in memories:
            memories[family] = decode_memory(recall(keeper, root, family))
        known = memories[family].get(inside)
        if known is not None and known[0] == FileState.of(os.lstat(path)):
            with suppress(DamagedStoreError):
                return keeper.store.objects.read(known[1], SMALL_FILE_BYTES)
        return read_small(path)

    return outline(root, read)


def _split_index(path: bytes) -> tuple[bytes, bytes]:
    """Split `torch_compile_cache/<10 hex>/<path in the family>` behind the family."""
    parts = path.split(b"/")
    return b"/".join(parts[:2]), b"/".join(parts[2:])


def pinned_paths(keeper: Keeper, root: Root, contents: Iterable[Content] = ()) -> frozenset[bytes]:
    """Return the paths of all families of a root that a pin protects or that are asked for."""
    asked = frozenset(family.path for content in contents for family in content.families)
    if not keeper.has_store:
        return asked
    return asked | frozenset(
        parse_path(family.path)
        for pin in keeper.catalogue.pins()
        if pin.root == root.identity
        for family in pin.families
    )


def compare_unit(looker: Looker, content: Content) -> UnitComparison:
    """Compare stored content with what stands in the root; raises DamagedStoreError, BusyError."""
    seen = _see_content(looker, content)
    store = looker.keeper.store
    families = tuple(
        _compare_family(store, family, seen.get(family.path)) for family in content.families
    )
    drift = unit_drift((one.family.kind, one.drift) for one in families)
    has_model = any(family.kind == "aot" for family in content.families)
    if content.kind not in ("pin", "aot") or not has_model:
        drift = worst_drift(one.drift for one in families)
    known = {family.path for family in content.families}
    newcomers = tuple(
        place
        for place in looker.outline.unit_places(content.key)
        if content.key and place.path not in known
    )
    return UnitComparison(content, drift, families, newcomers)


def _see_content(looker: Looker, content: Content) -> dict[bytes, Seen]:
    """Return what stands in the places of some content; a snapshot's holds several units."""
    by_path = {place.path: place for place in looker.outline.places}
    standing = {f.path: by_path[f.path] for f in content.families if f.path in by_path}
    seen = {path: looker.see(place) for path, place in standing.items()}
    for place in standing.values():
        if place.kind == "aot":
            partners = {link.compile for link in content.links if link.aot == place.key}
            unit = [p for p in standing.values() if p.kind == "compile" and p.key in partners]
            seen |= {one.place.path: one for one in looker.see_unit((place, *unit))}
    return seen


def load_manifest(store: Store, build: str) -> Manifest:
    """Return a stored manifest; raises DamagedStoreError."""
    data = store.objects.read(build, _LIST_LIMIT_BYTES)
    try:
        return Manifest.from_bytes(data)
    except FormatError as error:
        raise DamagedStoreError(f"build {build[:16]} is not a manifest: {error.fact}") from error


def load_attributes(store: Store, digest: str) -> AttributeList:
    """Return a stored attribute list; raises DamagedStoreError."""
    data = store.objects.read(digest, _LIST_LIMIT_BYTES)
    try:
        return AttributeList.from_bytes(data)
    except FormatError as error:
        raise DamagedStoreError(f"{digest[:16]} is not an attribute list: {error.fact}") from error


def _compare_family(store: Store, family: KeptFamily, seen: Seen | None) -> FamilyComparison:
    if seen is None:
        facts = FamilyFacts(family.kind, present=False, changes=(), damaged=False, incomplete=False)
        return FamilyComparison(family, None, (), family_drift(facts, (), candidate_key))
    if seen.content.manifest.build_id == family.build:
        changes: tuple[FileChange, ...] = ()
        paths: list[bytes] = []
    else:
        pinned = load_manifest(store, family.build)
        paths = [entry.path for entry in pinned.entries]
        changes = file_changes(
            pinned,
            seen.content.manifest,
            lambda path: classify(path, seen.place.kind) == "mutable",
        )
    known_bad = set(family.problems)
    facts = FamilyFacts(
        kind=family.kind,
        present=True,
        changes=changes,
        damaged=any(p.severity == "damaged" and p.code not in known_bad for p in seen.problems),
        incomplete=any(
            p.severity == "incomplete" and p.code not in known_bad for p in seen.problems
        ),
    )
    drift = family_drift(facts, paths, candidate_key)
    return FamilyComparison(family, seen, changes, drift, _odd_files(store, family, seen))


def _odd_files(store: Store, family: KeptFamily, seen: Seen) -> tuple[Problem, ...]:
    """Return the content files that have another mode or owner than they were kept with.

    vLLM overwrites a model that it cannot read, so equal bytes are not all that counts.
    """
    if seen.content.attributes.digest == family.attributes:
        return ()
    found = []
    kept = load_attributes(store, family.attributes).by_path()
    for now in seen.content.attributes.entries:
        was = kept.get(now.path)
        if was is None or now.kind != "f" or classify(now.path, seen.place.kind) == "mutable":
            continue
        if (was.mode, was.uid, was.gid) != (now.mode, now.uid, now.gid):
            detail = f"kept with {_standing(was)}, is {_standing(now)}"
            found.append(Problem("other-owner-or-mode", now.path, detail, "warning"))
    return tuple(found)


def _standing(entry: Attribute) -> str:
    return f"mode {entry.mode:04o} uid {entry.uid} gid {entry.gid}"
