"""The intent: what a restore is about to exchange in a root, so that a killed one can be finished.

A working directory `.cachekeeper-<id>` in the root holds the staged trees (`new/<n>`) and, from
the moment that everything is staged, verified and stored, `intent.json`. Whoever holds the root's
exclusive lock may finish it: docs/design/restore-protocol.md.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cachekeeper.core.errors import FormatError, NewerFormatError
from cachekeeper.core.paths import check_inside, parse_path, path_text, shown
from cachekeeper.fs.atomic import write_new_file
from cachekeeper.fs.reading import read_small

WORKING_PREFIX = b".cachekeeper-"
INTENT_FORMAT = 1
_INTENT = b"intent.json"
_LIMIT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class IntentItem:
    """One family to exchange: its path in the root, and the inodes that tell what stands where."""

    target: bytes
    staged: bytes
    staged_inode: int
    live_inode: int | None


@dataclass(frozen=True)
class Intent:
    """All that is needed to finish a restore: the items, the store, and the record to write."""

    restore: str
    store: str
    store_path: str
    items: tuple[IntentItem, ...]
    record: Mapping[str, Any]


def working_directory(root: bytes, restore: str) -> bytes:
    """Return the working directory of a restore."""
    return os.path.join(root, WORKING_PREFIX + restore.encode("ascii"))


def write_intent(root: bytes, intent: Intent) -> None:
    """Write the intent into its working directory; from then on the restore will be finished."""
    directory = working_directory(root, intent.restore)
    items = [
        {
            "target": path_text(item.target),
            "staged": path_text(item.staged),
            "staged_inode": item.staged_inode,
            "live_inode": item.live_inode,
        }
        for item in intent.items
    ]
    whole = {
        "format": INTENT_FORMAT,
        "restore": intent.restore,
        "store": intent.store,
        "store_path": intent.store_path,
        "items": items,
        "record": intent.record,
    }
    data = json.dumps(whole, sort_keys=True, indent=1).encode("ascii")
    path = os.path.join(directory, _INTENT)
    write_new_file(path, path + b".tmp", data)


def find_working_directories(root: bytes) -> tuple[str, ...]:
    """Return the restores that left a working directory in this root, sorted."""
    try:
        names = os.listdir(root)
    except OSError:
        return ()
    found = [name[len(WORKING_PREFIX) :] for name in names if name.startswith(WORKING_PREFIX)]
    return tuple(sorted(name.decode("ascii", "replace") for name in found))


def read_intent(root: bytes, restore: str) -> Intent | None:
    """Return a restore's intent, None where it had not written one; raises FormatError."""
    path = os.path.join(working_directory(root, restore), _INTENT)
    try:
        data = read_small(path, _LIMIT_BYTES)
    except FileNotFoundError:
        return None
    try:
        whole = json.loads(data)
        if whole["format"] > INTENT_FORMAT:
            raise NewerFormatError(
                f"{shown(path)} was written by a newer cachekeeper", "upgrade cachekeeper"
            )
        return Intent(
            restore=whole["restore"],
            store=whole["store"],
            store_path=whole["store_path"],
            items=tuple(_parse_item(item) for item in whole["items"]),
            record=whole["record"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"{shown(path)} is not a whole intent",
            "keep the directory: it may hold displaced content; move it aside by hand",
        ) from error


def _parse_item(item: Mapping[str, Any]) -> IntentItem:
    live = item["live_inode"]
    return IntentItem(
        target=check_inside(parse_path(item["target"])),
        staged=check_inside(parse_path(item["staged"])),
        staged_inode=int(item["staged_inode"]),
        live_inode=None if live is None else int(live),
    )
