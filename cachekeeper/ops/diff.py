"""diff: two contents of a family, file by file. What is inside them is not looked at yet."""

from collections.abc import Callable
from dataclasses import dataclass

from cachekeeper.core.difference import FileChange, file_changes
from cachekeeper.core.errors import UsageError
from cachekeeper.core.manifest import Manifest
from cachekeeper.core.references import parse_reference
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live import Looker, load_manifest, pinned_paths
from cachekeeper.keeper.live_unit import find_live_unit
from cachekeeper.keeper.resolve import resolve
from cachekeeper.keeper.survey import outline
from cachekeeper.layouts.families import FamilyKind
from cachekeeper.layouts.names import classify

FamilyId = tuple[FamilyKind, str, bytes]


@dataclass(frozen=True)
class Side:
    """One side: its name, unit key, and manifests by (kind, path)."""

    name: str
    key: str
    families: dict[FamilyId, Manifest]


@dataclass(frozen=True)
class FamilyDiff:
    """One family on both sides; `only` says on which side it is where it is on one alone."""

    kind: FamilyKind
    key: str
    path: bytes
    only: str | None
    changes: tuple[FileChange, ...]


@dataclass(frozen=True)
class DiffResult:
    """Two sides and their families' differences."""

    first: Side
    second: Side
    families: tuple[FamilyDiff, ...]

    @property
    def same_family(self) -> bool:
        """Tell whether both sides are the same graph hash."""
        return self.first.key == self.second.key

    @property
    def same_build(self) -> bool:
        """Tell whether every byte is equal."""
        return all(not one.changes and one.only is None for one in self.families)

    @property
    def same_meaning(self) -> bool | None:
        """Tell whether nothing but mutable files differs; None where other bytes differ.

        Only looking inside could say whether other bytes mean the same.
        """
        meant = [change for one in self.families for change in one.changes if not change.mutable]
        return True if not meant and all(one.only is None for one in self.families) else None


def diff(keeper: Keeper, first: str, second: str) -> DiffResult:
    """Return how two references differ; raises UsageError and its children."""
    one, two = _side(keeper, first), _side(keeper, second)
    families = []
    pairs = sorted(_paired(one, two))
    for key, in_first, in_second in pairs:
        kind, name, path = key
        if in_first is None or in_second is None:
            only = first if in_second is None else second
            families.append(FamilyDiff(kind, name, path, only, ()))
            continue
        changes = file_changes(in_first, in_second, _mutable_in(kind))
        families.append(FamilyDiff(kind, name, path, None, changes))
    return DiffResult(one, two, tuple(families))


def _mutable_in(kind: FamilyKind) -> Callable[[bytes], bool]:
    return lambda path: classify(path, kind) == "mutable"


def _paired(one: Side, two: Side) -> list[tuple[FamilyId, Manifest | None, Manifest | None]]:
    """Pair families by key; two single aot families are compared whatever their hashes are."""
    keys = one.families.keys() | two.families.keys()
    return [(key, one.families.get(key), two.families.get(key)) for key in keys]


def _side(keeper: Keeper, text: str) -> Side:
    if parse_reference(text).kind == "live":
        return _live_side(keeper, text)
    content = resolve(keeper, text)
    manifests = {
        (family.kind, family.key, family.path): load_manifest(keeper.store, family.build)
        for family in content.families
    }
    return Side(text, content.key, manifests)


def _live_side(keeper: Keeper, text: str) -> Side:
    sight, key = find_live_unit(keeper, text)
    root = sight.root
    with keeper.reading(root):
        looker = Looker(keeper, outline(root), pinned_paths(keeper, root))
        places = sight.unit_places(key) or tuple(p for p in sight.places if p.key == key)
        if not places:
            raise UsageError(f"nothing stands at {text!r} any more", "cachekeeper scan")
        manifests = {
            (place.kind, place.key, place.path): looker.see(place).content.manifest
            for place in places
        }
        looker.remember()
    return Side(text, key, manifests)
