"""The intent: what a restore is about to exchange in a root, so that a killed one can be finished.

A working directory `.cachekeeper-<id>` in the root holds the staged trees (`new/<n>`) and, from
the moment that everything is staged, verified and stored, `intent.json`. Whoever holds the root's
exclusive lock may finish it: docs/design/restore-protocol.md.
"""

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cachekeeper.core.errors import FormatError, NewerFormatError
from cachekeeper.core.paths import check_inside, parse_path, path_text, shown
from cachekeeper.fs import primitives
from cachekeeper.fs.atomic import remove_tree, write_new_file
from cachekeeper.fs.reading import read_small

WORKING_PREFIX = b".cachekeeper-"
INTENT_FORMAT = 1
_INTENT = b"intent.json"
_OURS = re.compile(re.escape(WORKING_PREFIX) + rb"([0-9a-f]{32})")
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


def remove_intent(root: bytes, restore: str) -> None:
    """Take an intent back, durably: from then on its working directory is only litter."""
    directory = working_directory(root, restore)
    primitives.remove_file(os.path.join(directory, _INTENT))
    primitives.sync_directory(directory)


def discard(root: bytes, restore: str) -> None:
    """Remove a restore's working directory, first of all its intent.

    A kill in between must not leave an intent beside trees of which a part is gone already.
    """
    with suppress(FileNotFoundError):
        remove_intent(root, restore)
    remove_tree(working_directory(root, restore))


def find_working_directories(root: bytes) -> tuple[str, ...]:
    """Return the restores that left a working directory in this root, sorted.

    What somebody named or moved by hand is not ours to finish or to remove.
    """
    try:
        names = os.listdir(root)
    except OSError:
        return ()
    ours = (match for match in map(_OURS.fullmatch, names) if match)
    return tuple(sorted(m[1].decode() for m in ours if _is_directory(os.path.join(root, m[0]))))


def _is_directory(path: bytes) -> bool:
    """Tell whether a directory is there itself: a link could lead to what is not ours."""
    return os.path.isdir(path) and not os.path.islink(path)


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
        return _parse_intent(whole, restore)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise FormatError(
            f"{shown(path)} is not a whole intent",
            "keep the directory: it may hold displaced content; move it aside by hand",
        ) from error


def _parse_intent(whole: Mapping[str, Any], restore: str) -> Intent:
    """Return the intent in an object; it must be of this restore, whose directory it lies in."""
    texts = (whole["store"], whole["store_path"])
    containers = (isinstance(whole["items"], list), isinstance(whole["record"], dict))
    if whole["restore"] != restore or not all((*map(_is_text, texts), *containers)):
        raise ValueError("a field has another type, or the intent is of another restore")
    items = tuple(_parse_item(item) for item in whole["items"])
    if not all(item.target and item.staged for item in items):
        raise ValueError("the root itself cannot be exchanged")
    return Intent(restore, whole["store"], whole["store_path"], items, whole["record"])


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _parse_item(item: Mapping[str, Any]) -> IntentItem:
    live = item["live_inode"]
    return IntentItem(
        target=check_inside(parse_path(item["target"])),
        staged=check_inside(parse_path(item["staged"])),
        staged_inode=int(item["staged_inode"]),
        live_inode=None if live is None else int(live),
    )
