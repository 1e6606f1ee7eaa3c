"""verify: live units against their pins, and every family against itself."""

from collections.abc import Iterable
from dataclasses import dataclass

from cachekeeper.core.drift import HARMLESS
from cachekeeper.core.errors import UnknownReferenceError, UsageError
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.core.problem import Problem
from cachekeeper.keeper.facts import FoundProblem, problems_in
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.live import (
    Looker,
    UnitComparison,
    compare_unit,
    outline_of,
    pinned_paths,
)
from cachekeeper.keeper.recovery import try_recover
from cachekeeper.keeper.resolve import Content, pin_content, resolve, unreadable_pins
from cachekeeper.keeper.roots import Root
from cachekeeper.keeper.survey import Seen


@dataclass(frozen=True)
class VerifyResult:
    """Each pin's comparison, each family's problems, what is unfinished, and the verdict."""

    units: tuple[UnitComparison, ...]
    problems: tuple[FoundProblem, ...]
    unfinished: tuple[str, ...]
    checked: int
    strict: bool

    @property
    def ok(self) -> bool:
        """Tell whether what was asked holds; with `strict` growth is a finding too."""
        harmless = {"intact"} if self.strict else HARMLESS
        return (
            not any(found.problem.severity != "notice" for found in self.problems)
            and not self.unfinished
            and all(unit.drift in harmless for unit in self.units)
        )


def verify(keeper: Keeper, references: tuple[str, ...], *, strict: bool = False) -> VerifyResult:
    """Return how the roots stand; with references only their units are looked at."""
    contents = _contents(keeper, references)
    units: list[UnitComparison] = []
    problems = [] if references else _damaged_records(keeper)
    unfinished: list[str] = []
    checked = 0
    for root in keeper.roots({content.root for content in contents}):
        unfinished += try_recover(keeper, root)
        mine = [content for content in contents if content.root == root.identity]
        with keeper.reading(root):
            looker = Looker(keeper, outline_of(keeper, root), pinned_paths(keeper, root, mine))
            units += [compare_unit(looker, content) for content in mine]
            problems += _odd_files(root, units)
            seen = _check_families(keeper, looker, mine if references else None)
            looker.remember()
        checked += len(seen)
        problems += problems_in(root, seen)
    return VerifyResult(tuple(units), tuple(problems), tuple(unfinished), checked, strict)


def _contents(keeper: Keeper, references: tuple[str, ...]) -> tuple[Content, ...]:
    """Return what to compare with: the references' content, else every pin of the roots at hand."""
    if references:
        contents = tuple(resolve(keeper, text) for text in references)
        for text, content in zip(references, contents, strict=True):
            if not content.root:
                raise UsageError(
                    f"{text} holds several roots", "verify its units one by one, by hash or build"
                )
            if keeper.root_named(content.root) is None:
                where = shown(parse_path(content.root))
                raise UnknownReferenceError(
                    f"{text} belongs to {where}, which is not the root at hand",
                    f"add --root {where}",
                )
        return contents
    if not keeper.has_store:
        return ()
    return tuple(
        pin_content(keeper, pin)
        for pin in reversed(keeper.catalogue.pins())
        if keeper.root_named(pin.root) is not None
    )


def _odd_files(root: Root, units: Iterable[UnitComparison]) -> list[FoundProblem]:
    """Return the files of a root's units that have another mode or owner, each once."""
    found = {
        (one.family.path, problem.path): FoundProblem(root, one.family.path, problem)
        for unit in units
        if unit.content.root == root.identity
        for one in unit.families
        for problem in one.odd
    }
    return list(found.values())


def _damaged_records(keeper: Keeper) -> list[FoundProblem]:
    """Return the records of pins that nobody can compare with any more."""
    if not keeper.has_store:
        return []
    home = Root(keeper.store.path, keeper.store.path)
    return [
        FoundProblem(home, b"records", Problem("damaged-record", b"", fact, "damaged"))
        for fact in unreadable_pins(keeper)
    ]


def _check_families(keeper: Keeper, looker: Looker, only: list[Content] | None) -> tuple[Seen, ...]:
    """Return every family (or those of some contents), with what is wrong between partners."""
    sight = looker.outline
    wanted = None if only is None else {family.path for c in only for family in c.families}
    places = [place for place in sight.places if wanted is None or place.path in wanted]
    seen = {}
    for number, place in enumerate(places):
        label = f"verifying {shown(looker.root.real)}"
        keeper.settings.progress(label, number, len(places))
        seen[place.path] = looker.see(place)
    for place in places:
        if place.kind == "aot":
            unit = [p for p in sight.unit_places(place.key) if p.path in seen]
            seen.update({one.place.path: one for one in looker.see_unit(unit)})
    return tuple(seen[place.path] for place in places)
