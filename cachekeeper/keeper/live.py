"""What stands in a root now, against what is pinned or stored: live units and their drift."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cachekeeper.core.attributes import AttributeList
from cachekeeper.core.difference import FileChange, file_changes
from cachekeeper.core.drift import Drift, FamilyFacts, family_drift, unit_drift, worst_drift
from cachekeeper.core.errors import DamagedStoreError, FormatError
from cachekeeper.core.manifest import Manifest
from cachekeeper.core.paths import parse_path, path_text
from cachekeeper.keeper.capture import CaptureOptions
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.kept import KeptFamily
from cachekeeper.keeper.memory import Memory, decode_memory, encode_memory
from cachekeeper.keeper.resolve import Content
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import Outline, Seen, see_family, see_unit
from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.names import candidate_key, classify
from cachekeeper.store.store import Store

_LIST_LIMIT_BYTES = 256 << 20


@dataclass(frozen=True)
class FamilyComparison:
    """One pinned family against what stands in its place."""

    family: KeptFamily
    seen: Seen | None
    changes: tuple[FileChange, ...]
    drift: Drift


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

    @property
    def root(self) -> Root:
        """Return the root that is looked at."""
        return self.outline.root

    def see(self, place: FamilyPlace) -> Seen:
        """Return a family as it stands now; raises BusyError."""
        if place.path not in self._seen:
            memory = {} if place.path in self.pinned else remembered(self.keeper, self.root, place)
            store = self.keeper.store if self.objects_too else None
            options = CaptureOptions(
                objects=store.objects if store else None,
                memory=memory,
                repair=self.objects_too and place.path in self.pinned,
            )
            self._seen[place.path] = see_family(self.root, place, options, lambda _digest: False)
        return self._seen[place.path]

    def see_unit(self, places: Iterable[FamilyPlace]) -> tuple[Seen, ...]:
        """Return the families of one unit, with what is wrong between them."""
        return see_unit(self.root, [self.see(place) for place in places])

    def remember(self) -> None:
        """Remember the digests of all that was seen, for the next command."""
        if self.keeper.has_store and self._seen:
            items = {
                path_text(path): encode_memory(seen.content.memory)
                for path, seen in self._seen.items()
                if seen.content.read_bytes or not seen.content.memory
            }
            self.keeper.catalogue.remember(self.root.identity, items)


def remembered(keeper: Keeper, root: Root, place: FamilyPlace) -> Memory:
    """Return what is remembered of a family's files."""
    if not keeper.has_store:
        return {}
    data = keeper.catalogue.remembered(root.identity, path_text(place.path))
    return decode_memory(data) if data else {}


def pinned_paths(keeper: Keeper, root: Root) -> frozenset[bytes]:
    """Return the paths of all families that a pin protects in a root."""
    if not keeper.has_store:
        return frozenset()
    return frozenset(
        parse_path(family.path)
        for pin in keeper.catalogue.pins()
        if pin.root == root.identity
        for family in pin.families
    )


def compare_unit(looker: Looker, content: Content) -> UnitComparison:
    """Compare stored content with what stands in the root; raises DamagedStoreError, BusyError."""
    by_path = {place.path: place for place in looker.outline.places}
    standing = [by_path[f.path] for f in content.families if f.path in by_path]
    seen = {one.place.path: one for one in looker.see_unit(standing)}
    store = looker.keeper.store
    families = tuple(
        _compare_family(store, family, seen.get(family.path)) for family in content.families
    )
    drift = unit_drift((one.family.kind, one.drift) for one in families)
    if content.kind not in ("pin", "aot"):
        drift = worst_drift(one.drift for one in families)
    known = {family.path for family in content.families}
    newcomers = tuple(
        place
        for place in looker.outline.unit_places(content.key)
        if content.key and place.path not in known
    )
    return UnitComparison(content, drift, families, newcomers)


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
    return FamilyComparison(family, seen, changes, family_drift(facts, paths, candidate_key))
