"""Recovery: finishing what a killed restore left in a root, or naming it where it cannot be.

Whoever holds the root exclusively may do it. Rolling forward is always right, because an intent is
written only after its staged trees were verified and what they displace was stored. Where the file
system refuses it, everything is put back.
"""

import os
from collections.abc import Container
from contextlib import suppress
from dataclasses import replace

from cachekeeper.core.errors import (
    BusyError,
    DamagedStoreError,
    FormatError,
    KeeperError,
    RefusedError,
)
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.fs.exchange import displaced_paths, is_exchanged, roll_back, roll_forward
from cachekeeper.fs.intent import (
    Intent,
    IntentItem,
    discard,
    find_working_directories,
    read_intent,
    working_directory,
)
from cachekeeper.keeper.displaced import record_displaced
from cachekeeper.keeper.keeper import Keeper
from cachekeeper.keeper.roots import Root
from cachekeeper.store.store import Store, open_store


def recover(keeper: Keeper, root: Root) -> tuple[str, ...]:
    """Finish every killed restore in a root and return a sentence for each; raises RefusedError.

    Nothing is locked and nothing happens where nothing was left.
    """
    if not find_working_directories(root.real):
        return ()
    said = []
    with keeper.changing(root):
        for restore in find_working_directories(root.real):
            intent = read_intent(root.real, restore)
            if intent is None:
                said.append(_remove_staging(root, restore))
                continue
            store = _store_of(keeper, intent, root)
            with store.in_use(timeout_s=keeper.settings.lock_timeout_s):
                said.append(_finish_killed(store, root, intent))
    keeper.notices.extend(said)
    return tuple(said)


def refuse_unfinished(root: Root) -> None:
    """Refuse to read or change a root in which a restore was killed since this command began.

    The caller holds the root, so no restore is at work there now.
    """
    if name_unfinished(root):
        raise BusyError(
            f"a restore was killed in {shown(root.real)} just now", "run it again to finish both"
        )


def name_unfinished(root: Root) -> tuple[str, ...]:
    """Return a sentence for every restore that waits to be finished in a root."""
    said = []
    for restore in find_working_directories(root.real):
        try:
            intent = read_intent(root.real, restore)
        except KeeperError as error:
            said.append(error.fact)
            continue
        if intent is not None:
            said.append(f"a restore was killed half-way: {name_sides(root, intent)}")
    return tuple(said)


def name_sides(root: Root, intent: Intent) -> str:
    """Return which families of a restore are old and which are new."""
    return ", ".join(f"{shown(item.target)} is {_side(root, item)}" for item in intent.items)


def is_whole(root: Root, intent: Intent) -> bool:
    """Tell whether all families of a restore are old, or all are new."""
    sides = {_side(root, item) for item in intent.items}
    return sides in ({"old"}, {"new"})


def _side(root: Root, item: IntentItem) -> str:
    if is_exchanged(root.real, item):
        return "new"
    stands = os.path.lexists(os.path.join(root.real, item.target))
    return "old" if stands or item.live_inode is None else "not there"


def try_recover(keeper: Keeper, root: Root) -> tuple[str, ...]:
    """Recover for a command that only looks: where it cannot be done now, say so instead."""
    try:
        if keeper.has_store or not find_working_directories(root.real):
            recover(keeper, root)
            return ()
    except (KeeperError, OSError):
        pass
    return name_unfinished(root)


def _remove_staging(root: Root, restore: str) -> str:
    """Remove what a restore staged before it wrote an intent; in a read-only root it may stay."""
    try:
        discard(root.real, restore)
    except OSError as error:
        return f"the staging of a stopped restore stays in {shown(root.real)}: {error.strerror}"
    return f"removed the staging of a restore that was stopped in {shown(root.real)}"


def _finish_killed(store: Store, root: Root, intent: Intent) -> str:
    names = ", ".join(shown(item.target) for item in intent.items)
    try:
        roll_forward(root.real, intent)
    except RefusedError:
        _give_up(store, root, intent)
        return (
            f"gave up a killed restore in {shown(root.real)}, its staging is gone: verify {names}"
        )
    except OSError as error:
        if all(is_exchanged(root.real, item) for item in intent.items):
            raise
        roll_back(root.real, intent)
        _keep_displaced(store, root, intent)
        discard(root.real, intent.restore)
        return f"undid a restore that was killed in {shown(root.real)} ({error.strerror}): {names}"
    finish(store, root, replace(intent, record={**intent.record, "recovered": True}))
    return f"finished a restore that was killed in {shown(root.real)}: {names}"


def _give_up(store: Store, root: Root, intent: Intent) -> None:
    """End a restore whose staged trees are gone, or were copied here with the root.

    What was exchanged is put back, so that no unit stays torn. What is left in the working
    directory goes to the store before it is removed: nobody can tell any more what it is.
    """
    if any(is_exchanged(root.real, item) for item in intent.items):
        roll_back(root.real, intent)
    directory = working_directory(root.real, intent.restore)
    for item in intent.items:
        left = (os.path.join(directory, item.staged), *displaced_paths(root.real, intent, item))
        for path in sorted({path for path in left if os.path.lexists(path)}):
            record_displaced(store, root, path, item.target, intent.record)
    discard(root.real, intent.restore)


def finish(
    store: Store, root: Root, intent: Intent, unchanged: Container[bytes] = frozenset()
) -> None:
    """Store what was displaced if it changed since, write the record once, remove the rest.

    `unchanged` are targets whose displaced tree is known to be what was stored.
    The record comes before the removal: a kill in between leaves litter that the next command
    removes, never a loss. What is recorded is not looked at again: a part of it may be gone.
    """
    if not _is_recorded(store, intent.restore, intent.record.get("snapshot")):
        _keep_displaced(store, root, intent, unchanged)
        store.records.append("restore", intent.record)
    discard(root.real, intent.restore)


def _keep_displaced(
    store: Store, root: Root, intent: Intent, unchanged: Container[bytes] = frozenset()
) -> None:
    for item in intent.items:
        if item.target not in unchanged:
            for old in displaced_paths(root.real, intent, item):
                record_displaced(store, root, old, item.target, intent.record)


def _is_recorded(store: Store, restore: str, displaced: str | None) -> bool:
    """Tell whether a restore has its record; a damaged one, which check names, is none.

    It can only come after the snapshot of what was displaced, so older records are not read.
    """
    names = sorted(store.records.names(), reverse=True)
    first = next((number for number, _kind, digest in names if digest == displaced), 0)
    for sequence, kind, digest in names:
        if kind == "restore" and sequence > first:
            with suppress(DamagedStoreError, FormatError):
                if store.records.read(kind, digest).body.get("restore") == restore:
                    return True
    return False


def _store_of(keeper: Keeper, intent: Intent, root: Root) -> Store:
    """Return the store that an intent belongs to; raises RefusedError where there is none."""
    if keeper.has_store and keeper.store.store_id == intent.store:
        return keeper.store
    path = parse_path(intent.store_path)
    try:
        store = open_store(path)
    except KeeperError as error:
        raise RefusedError(
            f"a killed restore in {shown(root.real)} belongs to a store: {error.fact}",
            f"run any command with --store {shown(path)} to finish it",
        ) from error
    if store.store_id != intent.store:
        raise RefusedError(
            f"a killed restore in {shown(root.real)} belongs to a store that was at {shown(path)}",
            "run any command with --store where that store is now",
        )
    return store
