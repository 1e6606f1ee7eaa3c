"""Holds the indexes of a family against its files: missing artifacts, paths to other places.

vLLM 0.10 to 0.30 opens the absolute path that the index holds. In a moved tree that is the old
place: the worker dies, or silently runs the old artifact if that is still there.
"""

import os
from collections.abc import Iterator, Mapping

from cachekeeper.core.errors import FormatError
from cachekeeper.core.manifest import parents
from cachekeeper.core.paths import shown
from cachekeeper.core.problem import Problem
from cachekeeper.layouts.handles import parse_index
from cachekeeper.layouts.listing import INDEX_NAME, read_small

_NAMED = 3  # so many examples stand in a detail


def check_indexes(root: bytes, family: bytes, content: Mapping[bytes, int]) -> list[Problem]:
    """Return the problems of all indexes below the family's rank directories."""
    # An empty index is an empty file, which is said where sizes are checked.
    paths = sorted(path for path, size in content.items() if size and _is_index(path))
    if not paths:
        return []
    present = {above for path in content for above in parents(path)} | content.keys()
    home = os.path.join(os.path.abspath(root), family)
    return [problem for path in paths for problem in _check_index(home, path, present)]


def _is_index(path: bytes) -> bool:
    parts = path.split(b"/")
    return parts[-1] == INDEX_NAME and len(parts) in (2, 3) and parts[0].startswith(b"rank_")


def _check_index(home: bytes, path: bytes, present: set[bytes]) -> Iterator[Problem]:
    try:
        index = parse_index(read_small(os.path.join(home, path)))
    except FormatError as error:
        yield Problem("unreadable-index", path, error.fact, "damaged")
        return
    except OSError as error:  # nothing is known of the file itself
        yield Problem("unreadable-index", path, str(error.strerror), "warning")
        return
    if index.problem is not None:
        yield Problem("unreadable-index", path, index.problem, "damaged")
        return
    targets = _Targets(os.path.join(home, path.split(b"/", 1)[0]), os.path.dirname(path))
    local = sorted({targets.in_family(handle.path) for handle in index.handles})
    missing = [place for place in local if place not in present]
    if missing:
        detail = f"{len(missing)} of {len(index.handles)} handles have no artifact here: "
        yield Problem("missing-artifact", missing[0], detail + _some(missing), "incomplete")
    foreign = [handle.path for handle in index.handles if not targets.is_own(handle.path)]
    for detail in _foreign_details(foreign, len(index.handles)):
        yield Problem("foreign-path", path, detail, "warning")


def _foreign_details(foreign: list[bytes], total: int) -> Iterator[str]:
    alive = {target for target in foreign if os.path.isabs(target) and os.path.lexists(target)}
    states = (
        ("target still exists, vLLM up to 0.30 reads it in place of the file here", alive),
        ("target is gone, vLLM up to 0.30 does not start with this", set(foreign) - alive),
    )
    for state, targets in states:
        if targets:
            count = sum(target in targets for target in foreign)
            where = f"{count} of {total} handles point outside their rank directory"
            yield f"{state}: {where}, first to {shown(min(targets))}"


class _Targets:
    """Where the handles of one index point, seen from the rank directory the index lies in."""

    def __init__(self, rank_directory: bytes, index_directory: bytes) -> None:
        self._rank_directory = rank_directory
        self._real_directory = os.path.realpath(rank_directory)
        self._index_directory = index_directory
        self._own_directories: dict[bytes, bool] = {}

    def is_own(self, target: bytes) -> bool:
        """Return whether a target lies below the rank directory, also by way of links above it."""
        directory = os.path.dirname(os.path.normpath(target))
        known = self._own_directories.get(directory)
        if known is None:
            known = _is_below(directory, self._rank_directory) or (
                os.path.isabs(directory)
                and _is_below(os.path.realpath(directory), self._real_directory)
            )
            self._own_directories[directory] = known
        return known

    def in_family(self, target: bytes) -> bytes:
        """Return the path in this family that a target, perhaps of the place before, stands for."""
        rank = os.path.basename(self._rank_directory)
        normal = os.path.normpath(target)
        start = normal.rfind(b"/" + rank + b"/")
        if start >= 0:
            return normal[start + 1 :]
        return self._index_directory + b"/" + os.path.basename(normal)


def _is_below(directory: bytes, top: bytes) -> bool:
    return directory == top or directory.startswith(top + b"/")


def _some(paths: list[bytes]) -> str:
    more = ", …" if len(paths) > _NAMED else ""
    return ", ".join(shown(path) for path in paths[:_NAMED]) + more
