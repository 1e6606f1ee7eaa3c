"""How two manifests of one family differ, file by file."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cachekeeper.core.manifest import Manifest

ChangeKind = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One path that differs; a digest is None where the file is not there.

    `mutable` files are rewritten by every warm load, so they never count as drift.
    """

    path: bytes
    change: ChangeKind
    before: str | None
    after: str | None
    mutable: bool


def file_changes(
    before: Manifest, after: Manifest, is_mutable: Callable[[bytes], bool]
) -> tuple[FileChange, ...]:
    """Return the changes from `before` to `after`, sorted by path.

    A path that turned from file to link, or back, has changed even where the digest is equal.
    """
    old, new = before.by_path(), after.by_path()
    changes = []
    for path in sorted(old.keys() | new.keys()):
        was, now = old.get(path), new.get(path)
        if was is not None and now is not None:
            if (was.kind, was.digest) == (now.kind, now.digest):
                continue
            kind: ChangeKind = "changed"
        else:
            kind = "added" if was is None else "removed"
        digests = (was.digest if was else None, now.digest if now else None)
        changes.append(FileChange(path, kind, *digests, is_mutable(path)))
    return tuple(changes)
