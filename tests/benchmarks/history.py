"""A store with a long history, made in seconds.

A few snapshots and a pin are taken through the command line. The rest are copies of these
snapshots' records with new messages, times and sequence numbers, written as
docs/design/store-format.md lays down: a record is JSON with sorted keys and a final newline, named
`<sequence>-<BLAKE3 of the bytes>.json`. `grow` is the seam: a quicker way can take its place.
"""

import datetime as dt
import json
import os
from collections.abc import Iterator
from typing import Any

from contest import change_model
from keeper import Keeper, aot_key

_REAL_SNAPSHOTS = 4
_SEQUENCE_DIGITS = 12
_Record = dict[str, Any]  # a record as it is parsed; only its outer keys are touched


def make_history(keeper: Keeper, snapshots: int) -> None:
    """Fill the keeper's store until it has so many snapshots, one of them pinned."""
    for _ in range(_REAL_SNAPSHOTS):
        change_model(keeper.root)
        keeper.workplace.run(keeper.keeper_command("snapshot", "-m", "real"))
    keeper.workplace.run(keeper.keeper_command("pin", aot_key(keeper.root)))
    grow(keeper.repository, snapshots)
    for command in ("log", "pins", "ls"):  # the catalogue catches up here, not in a timing
        keeper.workplace.run(keeper.keeper_command(command))


def grow(store: str, snapshots: int) -> None:
    """Write snapshot records into a store that nobody uses until it has so many."""
    import blake3  # noqa: PLC0415  # the store's digest; runs without cachekeeper do not need it

    directory = os.path.join(store, "records", "snapshot")
    patterns = [_load(os.path.join(directory, name)) for name in sorted(os.listdir(directory))]
    real = [pattern for pattern in patterns if pattern["body"].get("reason") == "snapshot"]
    sequence = max(_sequences(store))
    for number in range(snapshots - len(patterns)):
        sequence += 1
        record = _copy(real[number % len(real)], sequence, number)
        data = json.dumps(record, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        digest = blake3.blake3(data).hexdigest()
        path = os.path.join(directory, f"{sequence:0{_SEQUENCE_DIGITS}}-{digest}.json")
        with open(path, "xb") as file:
            file.write(data)
        os.chmod(path, 0o444)


def _copy(pattern: _Record, sequence: int, number: int) -> _Record:
    at = dt.datetime.now(dt.timezone.utc).isoformat(timespec="microseconds")
    return pattern | {
        "at": at.replace("+00:00", "Z"),
        "body": pattern["body"] | {"message": f"copy {number}"},
        "sequence": sequence,
    }


def _sequences(store: str) -> Iterator[int]:
    for _, _, names in os.walk(os.path.join(store, "records")):
        yield from (int(name[:_SEQUENCE_DIGITS]) for name in names if name.endswith(".json"))


def _load(path: str) -> _Record:
    with open(path, "rb") as file:
        record: _Record = json.load(file)
    return record
