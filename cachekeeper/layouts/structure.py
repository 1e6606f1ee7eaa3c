"""What is wrong with a family by names, sizes and indexes alone: ranks, formats, empty files.

Together with `inspect.health` (which reads inside the files) this is the check of a family against
itself. Nothing is opened but `vllm_compile_cache.py`.
"""

import os
import re
from collections.abc import Iterable

from cachekeeper.core.paths import shown
from cachekeeper.core.problem import Problem
from cachekeeper.layouts.families import FamilyPlace
from cachekeeper.layouts.index_check import check_indexes
from cachekeeper.layouts.listing import directory_names, rank_of_name
from cachekeeper.layouts.names import Rank, classify

_RANK_PREFIX = b"rank"
_MODEL = re.compile(rb"rank_[^/]+/model")
_ARTIFACT = re.compile(rb"(rank_[^/]+)(?:/[^/]+)?/(artifact_[^/]+)(/.+)?", re.DOTALL)
# Files of these names always hold something. `__init__.py` and names nobody knows may be empty.
_NEVER_EMPTY = re.compile(
    rb"(?:.*\.(?:py|best_config|cubin|hsaco|json|so|ptx|ttir|ttgir|llir|cpp)|artifact_[^/]*)",
    re.DOTALL,
)


def check_structure(
    root: bytes, place: FamilyPlace, files: Iterable[tuple[bytes, int]]
) -> tuple[Problem, ...]:
    """Return the problems of a family; `files` are all its files (path in the family, bytes).

    Entries of a root that no vLLM is known to write are not judged.
    """
    if place.kind == "other" and not place.recognised:
        return ()
    sizes = dict(files)
    content = {path: size for path, size in sizes.items() if _is_content(path, place)}
    problems = _check_sizes(place, content)
    if place.kind == "other":
        return tuple(problems)
    problems += _check_ranks(root, place, sizes)
    problems += _check_formats(content)
    problems += check_indexes(root, place.path, content)
    return tuple(problems)


def check_unit(
    aot_ranks: Iterable[Rank], partners: Iterable[tuple[str, Iterable[Rank], bool]]
) -> tuple[Problem, ...]:
    """Return `mixed-ranks` for each partner (key, ranks, is mega) whose ranks are not the model's.

    A mega artifact holds its kernels itself, so its partner cannot break it. `path` is empty.
    """
    expected = {(rank.rank, rank.data_parallel) for rank in aot_ranks}
    problems = []
    for key, ranks, is_mega_partner in partners:
        found = {(rank.rank, rank.data_parallel) for rank in ranks}
        if found != expected and not is_mega_partner:
            lacking = _rank_text(expected - found) or "none"
            extra = _rank_text(found - expected) or "none"
            detail = f"ranks of the model missing in {key}: {lacking}; only in {key}: {extra}"
            problems.append(Problem("mixed-ranks", b"", detail, "incomplete"))
    return tuple(problems)


def _is_content(path: bytes, place: FamilyPlace) -> bool:
    return classify(path, place.kind) in ("content", "mutable")


def _check_sizes(place: FamilyPlace, content: dict[bytes, int]) -> list[Problem]:
    problems = []
    for path, size in content.items():
        if size:
            continue
        name = os.path.basename(path or place.path)
        if _MODEL.fullmatch(path):
            problems.append(Problem("empty-model", path, "0 bytes: the save failed", "damaged"))
        elif _NEVER_EMPTY.fullmatch(name) and name != b"__init__.py":
            problems.append(Problem("empty-file", path, "0 bytes", "damaged"))
    return problems


def _check_ranks(root: bytes, place: FamilyPlace, sizes: dict[bytes, int]) -> list[Problem]:
    # Directories are listed as well: a rank directory without a file is in no list of files.
    on_disk = directory_names(os.path.join(root, place.path))
    names = {path.split(b"/", 1)[0] for path in sizes if b"/" in path} | set(on_disk)
    ranks, problems = {}, []
    for name in sorted(each for each in names if each.startswith(_RANK_PREFIX)):
        rank = rank_of_name(name)
        if rank is None:
            detail = f"{shown(name)} is not rank_<rank>_<data parallel index>"
            problems.append(Problem("unknown-rank-name", name, detail, "notice"))
        else:
            ranks[name] = rank
    if place.kind == "aot":
        problems += _check_models(ranks, sizes)
    numbers = {(rank.rank, rank.data_parallel) for rank in ranks.values()}
    return problems + _check_gaps(numbers)


def _check_models(ranks: dict[bytes, Rank], sizes: dict[bytes, int]) -> list[Problem]:
    if not ranks:
        return [Problem("missing-rank", b"", "no rank has a model", "incomplete")]
    without = [name for name in ranks if name + b"/model" not in sizes]
    return [Problem("missing-rank", name, "no model", "incomplete") for name in without]


def _check_gaps(numbers: set[tuple[int, int]]) -> list[Problem]:
    """Find numbers missing between 0 and the greatest, in both numbers of a rank."""
    if not numbers:
        return []
    world = max(rank for rank, _ in numbers) + 1
    replicas = max(replica for _, replica in numbers) + 1
    lacking = world * replicas - len(numbers)
    if not lacking:
        return []
    # Names come from the disk, so the product may be huge: say a few.
    first = _first_gaps(numbers, world, replicas)
    detail = f"{lacking} of {world * replicas} ranks are missing: {_rank_text(first)}"
    if lacking > len(first):
        detail += ", …"
    return [Problem("missing-rank", b"", detail, "incomplete")]


def _first_gaps(numbers: set[tuple[int, int]], world: int, replicas: int) -> set[tuple[int, int]]:
    gaps: set[tuple[int, int]] = set()
    for position in range(min(world * replicas, len(numbers) + 8)):
        number = (position % world, position // world)
        if number not in numbers and len(gaps) < 8:
            gaps.add(number)
    return gaps


def _rank_text(numbers: set[tuple[int, int]]) -> str:
    return ", ".join(f"rank_{rank}_{replica}" for rank, replica in sorted(numbers))


def _check_formats(content: dict[bytes, int]) -> list[Problem]:
    """Find artifacts kept as directories, which vLLM rewrites without care for other processes."""
    binary: dict[bytes, set[bytes]] = {}
    unpacked: dict[bytes, set[bytes]] = {}
    for path in content:
        match = _ARTIFACT.fullmatch(path)
        if match is not None:
            kept = unpacked if match[3] else binary
            kept.setdefault(match[1], set()).add(path[: match.end(2)])
    problems = []
    for rank in sorted(unpacked):
        count = len(unpacked[rank])
        detail = f"{count} unpacked (directories): not safe with concurrent writers"
        if rank in binary:
            detail += f"; {len(binary[rank])} binary beside them: no vLLM writes both under one key"
            problems.append(Problem("mixed-save-format", rank, detail, "warning"))
        else:
            problems.append(Problem("unpacked-format", rank, detail, "notice"))
    return problems
