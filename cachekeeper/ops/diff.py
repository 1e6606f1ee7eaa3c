"""diff: two contents of a family, file by file. What is inside them is not looked at yet."""

from collections.abc import Callable
from dataclasses import dataclass

from cachekeeper.core.difference import FileChange, file_changes
from cachekeeper.core.errors import RefusedError
from cachekeeper.core.manifest import Manifest
from cachekeeper.core.references import parse_reference
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live import load_manifest
from cachekeeper.keeper.live_unit import see_live_unit
from cachekeeper.keeper.resolve import resolve
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
    """One family on both sides, there perhaps under another key.

    `only` says on which side it is where it is on one alone.
    """

    kind: FamilyKind
    key: str
    path: bytes
    other_key: str
    only: str | None
    changes: tuple[FileChange, ...] = ()


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
    one, two = _narrow(one, two), _narrow(two, one)
    pairs = _pairs(one, two)
    families = [
        FamilyDiff(
            *mine,
            other_key=other[1],
            only=None,
            changes=file_changes(one.families[mine], two.families[other], _mutable_in(mine[0])),
        )
        for mine, other in pairs.items()
    ]
    for side, matched in ((one, set(pairs)), (two, set(pairs.values()))):
        alone = side.families.keys() - matched
        families += [FamilyDiff(*each, other_key=each[1], only=side.name) for each in alone]
    return DiffResult(one, two, tuple(sorted(families, key=lambda each: (each.kind, each.path))))


def _narrow(snapshot: Side, unit: Side) -> Side:
    """Return the part of a whole snapshot that is the other side's unit, if it is one."""
    if snapshot.key or not unit.key:
        return snapshot
    mine = {each: manifest for each, manifest in snapshot.families.items() if each in unit.families}
    return Side(snapshot.name, unit.key, mine) if mine else snapshot


def _mutable_in(kind: FamilyKind) -> Callable[[bytes], bool]:
    return lambda path: classify(path, kind) == "mutable"


def _pairs(one: Side, two: Side) -> dict[FamilyId, FamilyId]:
    """Pair families by their places, those of two units by kind where each side has one.

    So two graph hashes, and their partners, can be compared as well.
    """
    pairs = {family: family for family in one.families if family in two.families}
    if one.key and two.key and one.key != two.key:
        for kind in ("aot", "compile"):
            mine = [f for f in one.families if f[0] == kind and f not in pairs]
            others = [f for f in two.families if f[0] == kind and f not in pairs]
            if len(mine) == len(others) == 1:
                pairs[mine[0]] = others[0]
    return pairs


def _side(keeper: Keeper, text: str) -> Side:
    if parse_reference(text).kind == "live":
        _sight, key, seen = see_live_unit(keeper, text)
        live = {(s.place.kind, s.place.key, s.place.path): s.content.manifest for s in seen}
        return Side(text, key, live)
    content = resolve(keeper, text)
    if not content.root:
        raise RefusedError(
            f"{text} holds several roots", "compare its units one by one, by hash or build"
        )
    manifests = {
        (family.kind, family.key, family.path): load_manifest(keeper.store, family.build)
        for family in content.families
    }
    return Side(text, content.key, manifests)
