"""Recovery: finishing what a killed restore left in a root, or naming it where it cannot be.

Whoever holds the root exclusively may do it. Rolling forward is always right, because an intent is
written only after its staged trees were verified and what they displace was stored.
"""

from collections.abc import Container
from dataclasses import replace

from cachekeeper.core.errors import BusyError, KeeperError, RefusedError
from cachekeeper.core.paths import parse_path, shown
from cachekeeper.fs.atomic import remove_tree
from cachekeeper.fs.exchange import displaced_path, is_exchanged, roll_forward
from cachekeeper.fs.intent import (
    Intent,
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
                remove_tree(working_directory(root.real, restore))
                said.append(
                    f"removed the staging of a restore that was stopped in {shown(root.real)}"
                )
                continue
            store = _store_of(keeper, intent, root)
            roll_forward(root.real, intent)
            finish(store, root, replace(intent, record={**intent.record, "recovered": True}))
            names = ", ".join(shown(item.target) for item in intent.items)
            said.append(f"finished a restore that was killed in {shown(root.real)}: {names}")
    keeper.notices.extend(said)
    return tuple(said)


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
            sides = [
                f"{shown(item.target)} is {'new' if is_exchanged(root.real, item) else 'old'}"
                for item in intent.items
            ]
            said.append(f"a restore was killed half-way: {', '.join(sides)}")
    return tuple(said)


def try_recover(keeper: Keeper, root: Root) -> tuple[str, ...]:
    """Recover for a command that only looks: where it cannot be done now, say so instead."""
    try:
        if keeper.has_store or not find_working_directories(root.real):
            recover(keeper, root)
            return ()
    except (BusyError, RefusedError, OSError):
        pass
    return name_unfinished(root)


def finish(
    store: Store, root: Root, intent: Intent, unchanged: Container[bytes] = frozenset()
) -> None:
    """Store what was displaced if it changed since, write the record once, remove the rest.

    `unchanged` are targets whose displaced tree is known to be what was stored.
    The record comes before the removal: a kill in between leaves litter that the next command
    removes, never a loss.
    """
    for item in intent.items:
        old = displaced_path(root.real, intent, item)
        if old is not None and item.target not in unchanged:
            record_displaced(store, root, old, item.target, intent.record)
    if not _is_recorded(store, intent.restore):
        store.records.append("restore", intent.record)
    remove_tree(working_directory(root.real, intent.restore))


def _is_recorded(store: Store, restore: str) -> bool:
    return any(
        store.records.read(kind, digest).body.get("restore") == restore
        for _sequence, kind, digest in sorted(store.records.names(), reverse=True)
        if kind == "restore"
    )


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
