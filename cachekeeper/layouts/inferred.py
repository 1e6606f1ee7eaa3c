"""Pairs families by time where nothing on disk names the partner: the mega artifact, or vLLM 0.17.

vLLM writes a part's `computation_graph.py` right before the rank's `model`: 0.5 to 2.3 s earlier on
H200 with vLLM 0.20.1. Copying without times, or a model saved again from an old part (source edited
and edited back), can mislead this rule, so each link says its seconds and its rivals.
"""

import os
from dataclasses import dataclass

from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.listing import parts_of, ranks_of
from cachekeeper.layouts.names import Rank

_SECOND_NS = 1_000_000_000
# A model is saved right after its graph, before 0.20 after the first forward pass. What lies
# further apart comes from another compile.
_LONGEST_GAP_NS = 900 * _SECOND_NS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A family without a partner; `has_keys`: it names AOTAutograd keys, and none matched."""

    place: FamilyPlace
    has_keys: bool


@dataclass(frozen=True, slots=True)
class _Fit:
    """A compile family that could be an aot family's: ns from its last write to the model."""

    aot: str
    compile: str
    parts: frozenset[bytes]
    gap_ns: int


def infer_partners(
    root: bytes,
    aots: tuple[Candidate, ...],
    compiles: tuple[Candidate, ...],
    *,
    is_only_pair: bool,
) -> list[tuple[str, str, str]]:
    """Return (aot key, compile key, detail) where the times decide; undecided ones are left out."""
    pairs = [(a, c) for a in aots for c in compiles if not (a.has_keys and c.has_keys)]
    if is_only_pair:
        return [(a.place.key, c.place.key, "the only pair in this root") for a, c in pairs]
    models = {each.place.key: _model_times(root, each.place) for each in aots}
    writes = {each.place.key: _part_times(root, each.place) for each in compiles}
    fits = [
        fit
        for aot, partner in pairs
        for fit in _fits(aot.place.key, partner.place.key, models, writes)
    ]
    return [found for aot in aots if (found := _decide(aot.place.key, fits)) is not None]


def _model_times(root: bytes, place: FamilyPlace) -> dict[Rank, int]:
    """Return each rank's mtime of `model`; a rank without one is left out."""
    times = {}
    for rank in ranks_of(root, place):
        path = os.path.join(root, place.path, rank.name.encode("ascii"), b"model")
        time_ns = _mtime_ns(path)
        if time_ns is not None:
            times[rank] = time_ns
    return times


def _part_times(root: bytes, place: FamilyPlace) -> dict[Rank, dict[bytes, int]]:
    """Return for each rank the last write of each of its parts."""
    times: dict[Rank, dict[bytes, int]] = {}
    for part in parts_of(root, place):
        directory = os.path.join(root, place.path, part.path)
        found = [_mtime_ns(os.path.join(directory, name)) for name in part.file_names]
        known = [time_ns for time_ns in found if time_ns is not None]
        if known:
            times.setdefault(part.rank, {})[part.path] = max(known)
    return times


def _mtime_ns(path: bytes) -> int | None:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns
    except OSError:
        return None


def _fits(
    aot: str,
    partner: str,
    models: dict[str, dict[Rank, int]],
    writes: dict[str, dict[Rank, dict[bytes, int]]],
) -> list[_Fit]:
    """Return a pair's fit, if the ranks are equal and each model was saved soon after a part."""
    model, parts = models[aot], writes[partner]
    if not model or model.keys() != parts.keys():
        return []
    used, gaps = set(), []
    for rank, saved_ns in model.items():
        since = [(saved_ns - written_ns, path) for path, written_ns in parts[rank].items()]
        before = [each for each in since if 0 <= each[0] <= _LONGEST_GAP_NS]
        if not before:
            return []
        gap_ns, path = min(before)
        gaps.append(gap_ns)
        used.add(path)
    return [_Fit(aot, partner, frozenset(used), max(gaps))]


def _decide(aot: str, fits: list[_Fit]) -> tuple[str, str, str] | None:
    """Return the nearest partner, unless two are as near or its parts are nearer to another."""
    own = sorted((fit for fit in fits if fit.aot == aot), key=lambda fit: fit.gap_ns)
    if not own or (len(own) > 1 and own[0].gap_ns == own[1].gap_ns):
        return None
    best = own[0]
    rivals = [fit for fit in fits if fit.aot != aot and fit.compile == best.compile]
    if any(fit.parts & best.parts and fit.gap_ns <= best.gap_ns for fit in rivals):
        return None
    detail = f"last written {best.gap_ns / _SECOND_NS:.1f} s before the model"
    if len(own) > 1:
        detail += f"; {len(own) - 1} other could be meant, the nearest is {own[1].compile}"
    return aot, best.compile, detail
