"""What happens between the commands of a documented session, and where it happens.

A page names a scene in a comment before a block: `<!-- scene: overwritten -->`. The caches are real
ones (tests/data/h200); only the absolute paths in their indexes are those of the place they lie in.
"""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from real_trees import unpack_once

CACHE = "/data/vllm-cache"
CACHE_TWO_GPUS = "/data/vllm-tp2"
_COMPILE = Path("torch_compile_cache")
_AOT = _COMPILE / "torch_aot_compile"
_LLAMA = _AOT / "d4aaeaf4fb6e8b0314e79787c61a01a3e3b06a527885d44803006f73962a1d94"
_LLAMA_TWO_GPUS = _AOT / "fd93a1b8b4f6445776a0da58b302481567467a0bdd44056a1528352f85809c49"


@dataclass(frozen=True)
class Stage:
    """A place of its own for one page: a home and the cache roots; nothing else is touched."""

    base: Path
    cache: Path
    shared: Path

    @property
    def home(self) -> Path:
        """Return the home directory, which holds the store."""
        return self.base / "home"

    @property
    def two_gpus(self) -> Path:
        """Return the second cache root."""
        return self.base / "tp2"

    @property
    def shown_paths(self) -> dict[str, str]:
        """Return how pages call the places: real path to shown path."""
        return {str(self.cache): CACHE, str(self.two_gpus): CACHE_TWO_GPUS, str(self.home): "~"}

    def environment(self) -> dict[str, str]:
        """Return the environment of the commands: this interpreter's cachekeeper, that home."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.home),
            "VLLM_CACHE_ROOT": str(self.cache),
            "LANG": "C.UTF-8",
        }


def make_stage(base: Path, shared: Path, cache: Path | None = None) -> Stage:
    """Return an empty stage below `base`; recordings are unpacked below `shared`."""
    stage = Stage(base, cache or base / "cache", shared)
    stage.home.mkdir(parents=True, exist_ok=True)
    return stage


def _put(label: str, target: Path, stage: Stage) -> None:
    """Put a real cache in a place, as if it had been made there."""
    source = Path(os.fsdecode(unpack_once(label, stage.shared)))
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    _relocate(target, f"/tmp/ck/runs/{label}/vllm", target)


def _take(label: str, paths: list[Path], stage: Stage) -> None:
    """Put some paths of a later recording of the same cache into the stage's cache."""
    source = Path(os.fsdecode(unpack_once(label, stage.shared)))
    for path in paths:
        target = stage.cache / path
        if (source / path).is_dir():
            shutil.copytree(source / path, target)
            _relocate(target, "/tmp/ck/runs/A/vllm", stage.cache)
        else:
            temporary = target.with_name(target.name + ".1.tmp")
            shutil.copy2(source / path, temporary)
            temporary.replace(target)  # by rename, as vLLM does


def _relocate(top: Path, recorded: str, cache: Path) -> None:
    """Let the indexes name the place where the cache lies now; times stay."""
    for index in top.rglob("vllm_compile_cache.py"):
        times = index.stat()
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace(recorded, str(cache)), encoding="utf-8")
        os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))


def llama(stage: Stage) -> None:
    """Llama on one GPU, cold."""
    _put("A", stage.cache, stage)


def warm_load(stage: Stage) -> None:
    """One warm start: vLLM wrote the loose tuning records anew."""
    records = sorted((stage.cache / _LLAMA).rglob("*.best_config"))
    _take("A4", [record.relative_to(stage.cache) for record in records], stage)


def overwritten(stage: Stage) -> None:
    """A comment in llama.py: vLLM replaced `model` and made a second compile family."""
    _take("A3", [_LLAMA / "rank_0_0/model", _COMPILE / "eb3d177080"], stage)


def two_gpus(stage: Stage) -> None:
    """Llama on two GPUs, in a root of its own."""
    _put("LT", stage.two_gpus, stage)


def rank_lost(stage: Stage) -> None:
    """Somebody deleted what rank 1 needs."""
    shutil.rmtree(stage.two_gpus / _LLAMA_TWO_GPUS / "rank_1_0")


SCENES: dict[str, Callable[[Stage], None]] = {
    "llama": llama,
    "warm-load": warm_load,
    "overwritten": overwritten,
    "two-gpus": two_gpus,
    "rank-lost": rank_lost,
}
