"""The keeper itself: settings, the open store, its catalogue. Operations take it.

The catalogue is opened when a query needs it: looking at a live root without a store imports no
database.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from cachekeeper.catalogue.catalogue import Catalogue
from cachekeeper.core.errors import UsageError
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
        """Tell whether there is a store."""
        return self.settings.store is not None and store_exists(self.settings.store)

    @property
    def store(self) -> Store:
        """Return the existing store; raises UsageError where there is none."""
        if self._store is None:
            if self.settings.store is None:
                raise UsageError(
                    "no place for the store is known: HOME is not set",
                    "set CACHEKEEPER_STORE or give --store",
                )
            self._store = open_store(self.settings.store)
        return self._store

    def make_store(self) -> Store:
        """Return the store, made if need be; raises RefusedError where a root is inside it."""
        if self.settings.store is None:
            return self.store
        for root in self.settings.roots:
            check_apart(absent_root(root), self.settings.store)
        if self._store is None:
            self._store = create_store(self.settings.store)
        return self._store

    @property
    def catalogue(self) -> Catalogue:
        """Return the catalogue of the existing store."""
        if self._catalogue is None:
            store = self.store
            self._catalogue = Catalogue(store.catalogue_path, store.store_id, store.records)
        return self._catalogue

    def roots(self) -> tuple[Root, ...]:
        """Return the roots, which must exist; raises UsageError, RefusedError."""
        roots = tuple(open_root(path) for path in self.settings.roots)
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
        """Hold a root shared, so that no restore changes it meanwhile."""
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
