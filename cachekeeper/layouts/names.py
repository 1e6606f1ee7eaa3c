"""What a path inside a family says about the file: content, mutable, lock, temporary, candidate.

Pure functions over names, called once a file. Sources: PyTorch's `write_atomic` and
`AutotuneCache`, Triton's file cache, vLLM's `save_aot_compiled_function`
(docs/design/cache-layouts.md). The left-out names are part of docs/design/store-format.md.
"""

import re
from dataclasses import dataclass
from typing import Literal

from cachekeeper.layouts.families import FamilyKind

NameClass = Literal["content", "mutable", "lock", "temporary"]

_RANK = re.compile(r"rank_(0|[1-9][0-9]{0,8})_(0|[1-9][0-9]{0,8})(?:_dev(0|[1-9][0-9]{0,8}))?")
# Directories below which each directory holds the candidates of one key, and the key's depth.
_CANDIDATE_DEPTHS = {b"fxgraph": 4, b"triton": 4, b"aotautograd": 3}


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: its number in the TP x PP world, its data parallel index, its device if named."""

    rank: int
    data_parallel: int
    device: int | None = None

    @property
    def name(self) -> str:
        """Return the directory's name."""
        device = "" if self.device is None else f"_dev{self.device}"
        return f"rank_{self.rank}_{self.data_parallel}{device}"


def classify(path_in_family: bytes, kind: FamilyKind) -> NameClass:
    """Return what the file at a path is; `mutable` is content that a warm load rewrites.

    `*.tmp` speaks of the file alone: below a directory `foo.tmp` lies content. Below a directory
    `tmp.*` (Triton, TritonBundler) everything is temporary.
    """
    if path_in_family.startswith(b"tmp.") or b"/tmp." in path_in_family:
        return "temporary"
    name = path_in_family[path_in_family.rfind(b"/") + 1 :]
    if name.endswith(b".lock"):
        return "lock"
    if name.endswith(b".tmp") or name.startswith(b".nfs"):
        return "temporary"
    is_tuning = name.endswith(b".best_config")
    if is_tuning and kind == "aot" and path_in_family.startswith(b"inductor_cache/"):
        return "mutable"
    return "content"


def candidate_key(path: bytes) -> bytes | None:
    """Return the key directory whose candidates a file of an `aot` family competes with.

    Inductor tries all files below a key in the order of their names, so a new one may win.
    """
    parts = path.split(b"/", 4)
    if len(parts) < 4 or parts[0] != b"inductor_cache":
        return None
    depth = _CANDIDATE_DEPTHS.get(parts[1])
    if depth is None or len(parts) <= depth:
        return None
    return b"/".join(parts[:depth])


def parse_rank(name: str) -> Rank | None:
    """Return the rank that `rank_<r>_<dp>`, perhaps with `_dev<n>`, names, else nothing."""
    match = _RANK.fullmatch(name)
    if match is None:
        return None
    device = None if match[3] is None else int(match[3])
    return Rank(int(match[1]), int(match[2]), device)
