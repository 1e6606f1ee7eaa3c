"""The keeper itself: settings, the open store, its catalogue. Operations take it.

The catalogue is opened when a query needs it: looking at a live root without a store imports no
database.
"""

import os
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cachekeeper.catalogue.catalogue import Catalogue
from cachekeeper.core.errors import IoError, UsageError
from cachekeeper.core.paths import shown
from cachekeeper.fs.locks import directory_lock
from cachekeeper.keeper.roots import Root, absent_root, check_apart, open_root
from cachekeeper.keeper.survey import Progress, no_progress
from cachekeeper.store.store import Store, create_store, open_store, store_exists


@dataclass(frozen=True)
class Settings:
    """What command line and environment decided; `store` is None where no place is known."""

    store: bytes | None
    roots: tuple[bytes, ...]
    lock_timeout_s: float = 60.0
    progress: Progress = no_progress
    origin: dict[str, Any] = field(default_factory=dict)
    is_default_store: bool = False


class Keeper:
    """One store (or none yet) and the roots at hand."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.notices: list[str] = []
        self._store: Store | None = None
        self._catalogue: Catalogue | None = None

    def __enter__(self) -> "Keeper":  # noqa: PYI034  typing.Self is new in Python 3.11
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalogue."""
        if self._catalogue is not None:
            self._catalogue.close()
            self._catalogue = None

    @property
    def has_store(self) -> bool:
        """Tell whether there is a store; raises IoError where that may not be seen.

        A default place in a home that is somebody else's holds none of this user's.
        """
        path = self.settings.store
        try:
            return path is not None and store_exists(path)
        except IoError:
            if self.settings.is_default_store and not os.path.isdir(path or b""):
                return False
            raise

    @property
    def is_new(self) -> bool:
        """Tell whether nothing was stored yet; raises UsageError where no place is known."""
        return not self.has_store and self.store_path is not None

    @property
    def store_path(self) -> bytes:
        """Return where the store lies or will lie; raises UsageError where no place is known."""
        if self.settings.store is None:
            raise UsageError(
                "no place for the store is known: HOME is not set",
                "set CACHEKEEPER_STORE or give --store",
            )
        return self.settings.store

    @property
    def store(self) -> Store:
        """Return the existing store; raises UsageError where there is none."""
        if self._store is None:
            self._store = open_store(self.store_path)
        return self._store

    def make_store(self) -> Store:
        """Return the store, made if need be; raises RefusedError where a root is inside it."""
        for root in self.settings.roots:
            check_apart(absent_root(root), self.store_path)
        if self._store is None:
            self._store = create_store(self.store_path)
        return self._store

    @property
    def catalogue(self) -> Catalogue:
        """Return the catalogue of the existing store."""
        if self._catalogue is None:
            store = self.store
            self._catalogue = Catalogue(store.catalogue_path, store.store_id, store.records)
        return self._catalogue

    def roots(self, known: Container[str] = frozenset()) -> tuple[Root, ...]:
        """Return the roots, which must exist; raises UsageError, RefusedError.

        One whose identity is in `known` may be gone: what stood there is stored.
        """
        roots = tuple(_root(path, known) for path in self.settings.roots)
        if self.settings.store is not None:
            for root in roots:
                check_apart(root, self.settings.store)
        return roots

    def root_named(self, identity: str) -> Root | None:
        """Return the root at hand with this identity, existing or not."""
        for path in self.settings.roots:
            root = absent_root(path)
            if root.identity == identity:
                return root
        return None

    @contextmanager
    def reading(self, root: Root) -> Iterator[None]:
        """Hold a root shared, so that no restore changes it meanwhile; one that is gone is free."""
        if not os.path.isdir(root.real):
            yield
            return
        with directory_lock(root.real, exclusive=False, timeout_s=self.settings.lock_timeout_s):
            yield

    @contextmanager
    def changing(self, root: Root) -> Iterator[None]:
        """Hold a root exclusively."""
        timeout_s = self.settings.lock_timeout_s
        with directory_lock(root.real, exclusive=True, timeout_s=timeout_s) as able:
            if not able:
                self.notices.append(f"{shown(root.real)} cannot be locked on this file system")
            yield


def _root(path: bytes, known: Container[str]) -> Root:
    root = absent_root(path)
    return root if root.identity in known else open_root(path)
