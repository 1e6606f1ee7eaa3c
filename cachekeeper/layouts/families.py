"""Which families a cache root holds: the layout of vLLM 0.17 to 0.32.

Source of the names: vllm/compilation/decorators.py and backends.py of 0.17 to 0.32, and real trees
of 0.20.1 and 0.32.0 (docs/design/cache-layouts.md). Reads directories only, changes nothing, and
sees a tree that is being written as it is at that moment.
"""

import os
import re
from dataclasses import dataclass
from typing import Literal

from cachekeeper.core.errors import UsageError
from cachekeeper.core.paths import path_text, shown

FamilyKind = Literal["aot", "compile", "other"]

COMPILE_CACHE = b"torch_compile_cache"
AOT_CACHE = b"torch_aot_compile"
OWN_PREFIX = b".cachekeeper"
_AOT_KEY = re.compile(rb"[0-9a-f]{64}")
_COMPILE_KEY = re.compile(rb"[0-9a-f]{10}")
# A hash, or the beginning of one as people shorten it, with something put before or behind it.
_RENAMED = re.compile(rb"[0-9a-f]{6,64}[^0-9a-z].*|.*[0-9a-f]{64}.*", re.DOTALL)

# Companions that vLLM 0.20 to 0.32 puts beside its compile caches.
_COMPANIONS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"modelinfos"), "what vLLM found out about model classes, follows their source"),
    (re.compile(rb"dummy_cache"), "empty, made by each load of a mega artifact"),
    (
        re.compile(rb"gpu_p2p_access_cache_for_.*\.json", re.DOTALL),
        "which GPUs reach each other directly",
    ),
    (re.compile(rb"deep_gemm"), "kernels that DeepGEMM compiled"),
    (re.compile(rb"flashinfer_autotune_cache"), "choices of FlashInfer's autotuner"),
    (re.compile(rb"startup_plan"), "start-up plans of vLLM 0.26 and later"),
    (re.compile(rb"rocm_segmented_attention"), "attention kernels on ROCm"),
)


@dataclass(frozen=True, slots=True)
class FamilyPlace:
    """One family of a root; `path` is relative to the root, `key` names it inside the root."""

    kind: FamilyKind
    key: str
    path: bytes
    recognised: bool
    note: str


@dataclass(frozen=True, slots=True)
class ScanWarning:
    """One thing a scan met and did not stop at; `path` is relative to the root."""

    code: str
    path: bytes
    detail: str


@dataclass(frozen=True, slots=True)
class FamilyScan:
    """What a root holds, sorted by path: every entry is part of exactly one place."""

    places: tuple[FamilyPlace, ...]
    warnings: tuple[ScanWarning, ...]


def find_families(root: bytes) -> FamilyScan:
    """Return the families of a root; raises UsageError for a missing root and for nothing else."""
    finder = _Finder(root)
    for entry in _root_entries(finder, root):
        if entry.name.startswith(OWN_PREFIX):
            continue
        if entry.name == COMPILE_CACHE and is_directory(entry):
            finder.compile_cache()
        else:
            finder.add_other(entry, b"", is_family_level=False)
    places = sorted(finder.places, key=lambda place: place.path)
    return FamilyScan(tuple(places), tuple(sorted(finder.warnings, key=lambda each: each.path)))


def is_directory(entry: os.DirEntry[bytes]) -> bool:
    """Return whether an entry is a directory itself, not a link to one."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # only where the file system does not give types with the names
        return False


def is_link(entry: os.DirEntry[bytes]) -> bool:
    """Return whether an entry is a symbolic link."""
    try:
        return entry.is_symlink()
    except OSError:
        return False


def _root_entries(finder: "_Finder", root: bytes) -> list[os.DirEntry[bytes]]:
    hint = "give the directory that VLLM_CACHE_ROOT names, by default ~/.cache/vllm"
    try:
        return finder.entries(b"")
    except ValueError as error:
        raise UsageError(f"{shown(root)!r} is no path", hint) from error
    except FileNotFoundError as error:
        raise UsageError(f"the cache root {shown(root)} does not exist", hint) from error
    except NotADirectoryError as error:
        raise UsageError(f"the cache root {shown(root)} is not a directory", hint) from error


class _Finder:
    """Collects places and warnings of one scan."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.places: list[FamilyPlace] = []
        self.warnings: list[ScanWarning] = []

    def entries(self, relative: bytes) -> list[os.DirEntry[bytes]]:
        """Return the entries of a directory; only a root may be missing or no directory."""
        try:
            with os.scandir(os.path.join(self.root, relative) if relative else self.root) as found:
                return list(found)
        except OSError as error:
            if not relative and isinstance(error, FileNotFoundError | NotADirectoryError):
                raise
            self.warnings.append(ScanWarning("unreadable", relative, str(error.strerror)))
            return []

    def compile_cache(self) -> None:
        """Add what lies in `torch_compile_cache/`."""
        for entry in self.entries(COMPILE_CACHE):
            if entry.name == AOT_CACHE and is_directory(entry):
                self.aot_cache()
            elif _COMPILE_KEY.fullmatch(entry.name) and is_directory(entry):
                self._add_family("compile", entry, COMPILE_CACHE)
            else:
                self.add_other(entry, COMPILE_CACHE, is_family_level=True)

    def aot_cache(self) -> None:
        """Add what lies in `torch_compile_cache/torch_aot_compile/`."""
        parent = COMPILE_CACHE + b"/" + AOT_CACHE
        for entry in self.entries(parent):
            if _AOT_KEY.fullmatch(entry.name) and is_directory(entry):
                self._add_family("aot", entry, parent)
            else:
                self.add_other(entry, parent, is_family_level=True)

    def _add_family(self, kind: FamilyKind, entry: os.DirEntry[bytes], parent: bytes) -> None:
        path = parent + b"/" + entry.name
        self.places.append(FamilyPlace(kind, entry.name.decode("ascii"), path, True, ""))

    def add_other(self, entry: os.DirEntry[bytes], parent: bytes, *, is_family_level: bool) -> None:
        """Add an entry that is no family; what nobody knows is said."""
        path = parent + b"/" + entry.name if parent else entry.name
        note = "" if is_family_level or is_link(entry) else _companion_note(entry.name)
        recognised = bool(note)
        if not recognised:
            code, note = _doubt(entry, is_family_level=is_family_level)
            self.warnings.append(ScanWarning(code, path, note))
        self.places.append(FamilyPlace("other", path_text(path), path, recognised, note))


def _companion_note(name: bytes) -> str:
    return next((note for pattern, note in _COMPANIONS if pattern.fullmatch(name)), "")


def _doubt(entry: os.DirEntry[bytes], *, is_family_level: bool) -> tuple[str, str]:
    """Return the code and the words of the warning for an entry that is not known."""
    if is_link(entry):
        return "symlink", "a symbolic link: it is kept as a link, what it points to is not read"
    if is_family_level and is_directory(entry) and _looks_renamed(entry):
        return (
            "renamed-family",
            "looks like a family renamed or moved by hand: vLLM does not load it",
        )
    if not is_family_level and entry.name == AOT_CACHE:
        return "unknown-entry", "AOT artifacts of vLLM before 0.17: kept whole, not read"
    return "unknown-entry", "no vLLM from 0.17 to 0.32 is known to write this: kept whole, not read"


def _looks_renamed(entry: os.DirEntry[bytes]) -> bool:
    if _RENAMED.fullmatch(entry.name):
        return True
    try:
        with os.scandir(entry.path) as found:
            return any(inner.name.startswith(b"rank_") for inner in found)
    except OSError:
        return False
