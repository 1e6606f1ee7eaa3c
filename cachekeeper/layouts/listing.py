"""Reads names, times and small files of families; what cannot be read counts as not there.

Nothing here follows a symbolic link inside a family or opens anything but a regular file.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

from cachekeeper.core.errors import FormatError
from cachekeeper.fs.reading import open_file
from cachekeeper.layouts.families import FamilyPlace, is_directory
from cachekeeper.layouts.names import Rank, parse_rank

SMALL_FILE_BYTES = 8 * 1024 * 1024
INDEX_NAME = b"vllm_compile_cache.py"
ARTIFACT_PREFIX = b"artifact_"

SmallFileReader = Callable[[bytes], bytes]
"""Returns the content of a small file; raises OSError, FormatError."""


@dataclass(frozen=True, slots=True)
class Part:
    """One traced part (`backbone`, `eagle_head`) of one rank in a compile family.

    `path` is relative to the family: `rank_0_0/backbone`, or `rank_0_0` alone in vLLM 0.8.
    """

    rank: Rank
    path: bytes
    file_names: frozenset[bytes]
    artifact_count: int

    @property
    def has_index(self) -> bool:
        """Return whether vLLM's index of artifacts lies here."""
        return INDEX_NAME in self.file_names


def read_small(path: bytes) -> bytes:
    """Return the content of a regular file of at most SMALL_FILE_BYTES.

    Raises OSError, and FormatError for a larger file or what is no file at all.
    """
    with open(open_file(path), "rb") as file:
        content = file.read(SMALL_FILE_BYTES + 1)
    if len(content) > SMALL_FILE_BYTES:
        raise FormatError(f"larger than {SMALL_FILE_BYTES} bytes")
    return content


def entries(path: bytes) -> list[os.DirEntry[bytes]]:
    """Return the entries of a directory, none if it cannot be read."""
    try:
        with os.scandir(path) as found:
            return list(found)
    except OSError:
        return []


def directory_names(path: bytes) -> tuple[bytes, ...]:
    """Return the names of the directories in a directory, sorted."""
    return tuple(sorted(entry.name for entry in entries(path) if is_directory(entry)))


def rank_of_name(name: bytes) -> Rank | None:
    """Return the rank that a directory's name gives."""
    return parse_rank(name.decode("ascii", "replace"))


def ranks_of(root: bytes, place: FamilyPlace) -> tuple[Rank, ...]:
    """Return the ranks a family has directories for, in order of their numbers."""
    names = directory_names(os.path.join(root, place.path))
    ranks = [rank for rank in map(rank_of_name, names) if rank is not None]
    return tuple(sorted(ranks, key=lambda rank: (rank.data_parallel, rank.rank, rank.name)))


def parts_of(root: bytes, place: FamilyPlace) -> tuple[Part, ...]:
    """Return the parts of a compile family that hold files of vLLM, in order of ranks and names."""
    family = os.path.join(root, place.path)
    parts = []
    for rank in ranks_of(root, place):
        directory = rank.name.encode("ascii")
        names = directory_names(os.path.join(family, directory))
        inner = [directory + b"/" + name for name in names if not name.startswith(ARTIFACT_PREFIX)]
        parts += [_part(family, rank, path) for path in (directory, *inner)]
    return tuple(part for part in parts if part.file_names or part.artifact_count)


def _part(family: bytes, rank: Rank, path: bytes) -> Part:
    found = entries(os.path.join(family, path))
    artifact_count = sum(entry.name.startswith(ARTIFACT_PREFIX) for entry in found)
    names = frozenset(entry.name for entry in found if not is_directory(entry))
    return Part(rank, path, names, artifact_count)
