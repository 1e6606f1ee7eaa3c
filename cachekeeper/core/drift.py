"""Drift: how a live unit differs from its pin, mutable files apart.

The words are those of docs/design/glossary.md. Until a build is looked into, other bytes mean
`overwritten`: `retuned` and `rebuilt` need fingerprints.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from cachekeeper.core.difference import FileChange

Drift = Literal["intact", "grown", "shadowed", "overwritten", "incomplete", "damaged", "gone"]
# From harmless to worst; a unit has the worst drift of its families.
DRIFTS: tuple[Drift, ...] = (
    "intact", "grown", "shadowed", "overwritten", "incomplete", "damaged", "gone",
)  # fmt: skip
HARMLESS: frozenset[Drift] = frozenset({"intact", "grown"})


@dataclass(frozen=True, slots=True)
class FamilyFacts:
    """What was seen of one pinned family: is it there, what changed, what is wrong with it."""

    kind: str
    present: bool
    changes: tuple[FileChange, ...]
    damaged: bool
    incomplete: bool


def family_drift(
    facts: FamilyFacts,
    pinned_paths: Iterable[bytes],
    candidate_key: Callable[[bytes], bytes | None],
) -> Drift:
    """Return one family's drift.

    `candidate_key` names the key directory a file competes under: a file added under a key that
    the pin already has may win over the pinned one (Inductor tries candidates in sorted order).
    """
    if not facts.present:
        return "gone"
    if facts.damaged:
        return "damaged"
    changes = [change for change in facts.changes if not change.mutable]
    kinds = {change.change for change in changes}
    if facts.incomplete or "removed" in kinds:
        return "incomplete"
    if "changed" in kinds:
        return "overwritten"
    if not changes:
        return "intact"
    pinned_keys = {candidate_key(path) for path in pinned_paths} - {None}
    added_keys = {candidate_key(change.path) for change in changes}
    return "shadowed" if pinned_keys & added_keys else "grown"


def unit_drift(families: Iterable[tuple[str, Drift]]) -> Drift:
    """Return the drift of a unit from its families' (kind, drift).

    Without its `aot` family a unit is gone; without another one it is incomplete.
    """
    return worst_drift(
        "incomplete" if drift == "gone" and kind != "aot" else drift for kind, drift in families
    )


def worst_drift(drifts: Iterable[Drift]) -> Drift:
    """Return the worst of some drifts; nothing at all is intact."""
    return max(drifts, key=DRIFTS.index, default="intact")
