"""A cache root as a value, and what a root and a store may not be to each other."""

import os
from dataclasses import dataclass

from cachekeeper.core.errors import RefusedError, UsageError
from cachekeeper.core.paths import path_text, shown


@dataclass(frozen=True, slots=True)
class Root:
    """One cache root: the path as given (absolute) and its real path, links resolved.

    The real path is its identity: indexes hold absolute paths, so content belongs to one place.
    """

    given: bytes
    real: bytes

    @property
    def identity(self) -> str:
        """Return the real path in its text form, as records hold it."""
        return path_text(self.real)


def open_root(path: bytes) -> Root:
    """Return the root at an absolute path; raises UsageError where there is no directory."""
    if not os.path.isdir(path):
        raise UsageError(
            f"there is no cache root at {shown(path)}",
            "name it with --root or VLLM_CACHE_ROOT; vLLM makes it at its first start",
        )
    return Root(path, os.path.realpath(path))


def absent_root(path: bytes) -> Root:
    """Return the root at a path where nothing need stand: a restore may make it anew."""
    return Root(path, os.path.realpath(path))


def check_apart(root: Root, store: bytes) -> None:
    """Refuse a root inside the store or a store inside the root, on real paths.

    A restore of the root would replace the store, a snapshot would copy the store into itself.
    """
    real = os.path.realpath(store)
    if _is_inside(real, root.real):
        raise RefusedError(
            f"the store {shown(real)} lies inside the cache root {shown(root.real)}",
            "put the store elsewhere: --store or CACHEKEEPER_STORE",
        )
    if _is_inside(root.real, real):
        raise RefusedError(
            f"the cache root {shown(root.real)} lies inside the store {shown(real)}",
            "serve from a root of its own: cachekeeper restore copies the content out",
        )


def _is_inside(path: bytes, top: bytes) -> bool:
    return path == top or path.startswith(top.rstrip(b"/") + b"/")
