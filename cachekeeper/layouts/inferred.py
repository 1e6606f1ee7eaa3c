"""Pairs families by time where nothing on disk names the partner: the mega artifact, or vLLM 0.17.

vLLM writes a part's `computation_graph.py` right before the rank's `model`: 0.4 to 2.5 s earlier on
H200 with vLLM 0.20.1, 1 s on CPU with 0.32. Copying without times can mislead this rule, and so can
an edit that is undone: the model is saved again, the first part is not, and the edit's is nearer.
So each link says its seconds and its rivals, and the gap has a limit.
"""

import os
from dataclasses import dataclass

from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.listing import parts_of, ranks_of
from cachekeeper.layouts.names import Rank

_SECOND_NS = 1_000_000_000
# Longest time from a part to the model of the same compile. A mega model holds its kernels, so a
# wrong partner costs more than none; else the partner holds them, and before 0.20 the model is
# saved after the first forward pass only.
_LONGEST_GAP_MEGA_NS = 60 * _SECOND_NS
_LONGEST_GAP_NS = 900 * _SECOND_NS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A family without a partner; `has_keys`: it names AOTAutograd keys, and none matched."""

    place: FamilyPlace
    has_keys: bool


@dataclass(frozen=True, slots=True)
class _Written:
    """When each part of each rank of a compile family was last written, and the longest gap."""

    parts: dict[Rank, dict[bytes, int]]
    limit_ns: int


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
    written = {each.place.key: _written(root, each.place) for each in compiles}
    fits = []
    for aot, partner in ((a.place.key, c.place.key) for a, c in pairs):
        fit = _fit(aot, partner, models[aot], written[partner])
        fits += [fit] if fit is not None else []
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


def _written(root: bytes, place: FamilyPlace) -> _Written:
    times: dict[Rank, dict[bytes, int]] = {}
    has_kernels = False
    for part in parts_of(root, place):
        has_kernels = has_kernels or part.has_index or part.artifact_count > 0
        directory = os.path.join(root, place.path, part.path)
        found = [_mtime_ns(os.path.join(directory, name)) for name in part.file_names]
        known = [time_ns for time_ns in found if time_ns is not None]
        if known:
            times.setdefault(part.rank, {})[part.path] = max(known)
    return _Written(times, _LONGEST_GAP_NS if has_kernels else _LONGEST_GAP_MEGA_NS)


def _mtime_ns(path: bytes) -> int | None:
    try:
        return os.stat(path, follow_symlinks=False).st_mtime_ns
    except OSError:
        return None


def _fit(aot: str, partner: str, models: dict[Rank, int], written: _Written) -> _Fit | None:
    """Return a pair's fit, if the ranks are equal and each model was saved soon after a part."""
    if not models or models.keys() != written.parts.keys():
        return None
    used, gaps = set(), []
    for rank, saved_ns in models.items():
        since = [(saved_ns - written_ns, path) for path, written_ns in written.parts[rank].items()]
        before = [each for each in since if 0 <= each[0] <= written.limit_ns]
        if not before:
            return None
        gap_ns, path = min(before)
        gaps.append(gap_ns)
        used.add(path)
    return _Fit(aot, partner, frozenset(used), max(gaps))


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
