"""Stored content as the source of a restore: is all of it there, may it be put back, as what."""

from cachekeeper.core.attributes import Attribute
from cachekeeper.core.errors import DamagedStoreError, RefusedError
from cachekeeper.core.paths import path_below, shown
from cachekeeper.fs.staging import StagedFile
from cachekeeper.keeper.capture import Captured
from cachekeeper.keeper.kept import KeptFamily
from cachekeeper.keeper.live import load_attributes, load_manifest
from cachekeeper.store.store import Store


def check_present(store: Store, family: KeptFamily) -> None:
    """Refuse a family of which an object is missing; staging verifies the digests."""
    wanted = [(e.digest, e.size_bytes, e.path) for e in load_manifest(store, family.build).entries]
    wanted += [
        (a.digest, a.size_bytes, a.path)
        for a in load_attributes(store, family.attributes).entries
        if a.kind == "k"
    ]
    for digest, size, path in wanted:
        if not store.objects.has(digest, size):
            raise DamagedStoreError(
                f"the stored object {digest[:16]} for {shown(family.path + b'/' + path)} "
                "is missing or has another size",
                "cachekeeper check names every pin and snapshot it belongs to",
            )


def check_owners(store: Store, family: KeptFamily, uid: int, gids: set[int]) -> None:
    """Refuse content of another owner, which only root can put back as it was."""
    if uid == 0:
        return
    for entry in load_attributes(store, family.attributes).entries:
        if entry.kind != "t" and (entry.uid != uid or entry.gid not in gids):
            raise RefusedError(
                f"{shown(family.path + b'/' + entry.path)} belongs to uid {entry.uid} "
                f"gid {entry.gid}, and only root can give it back to them (this is uid {uid})",
                "run the restore as root; nothing was changed",
            )


def stage_parts(
    store: Store, family: KeptFamily, top: bytes, live: Captured | None
) -> tuple[tuple[Attribute, ...], tuple[StagedFile, ...]]:
    """Return the directories and files to stage; `live` is what stands at `top` now.

    A live file of equal digest may be linked instead of copied. Attributes that do not fit the
    manifest raise DamagedStoreError: the two lists were stored together.
    """
    manifest = load_manifest(store, family.build).by_path()
    attributes = load_attributes(store, family.attributes).entries
    equal = live.manifest.by_path() if live else {}
    memory = live.memory if live else {}
    directories = tuple(entry for entry in attributes if entry.kind == "d")
    files: list[StagedFile] = []
    for entry in attributes:
        if entry.kind == "k":
            files.append(StagedFile(entry, entry.digest, store.objects.path(entry.digest)))
        elif entry.kind in ("f", "l"):
            wanted = manifest.pop(entry.path, None)
            if wanted is None or wanted.kind != entry.kind:
                raise _unfit(family, entry.path)
            same = equal.get(entry.path)
            is_live = same is not None and (same.kind, same.digest) == ("f", wanted.digest)
            path = path_below(top, entry.path) if is_live else None
            state = memory[entry.path][0] if is_live and entry.path in memory else None
            stored = store.objects.path(wanted.digest)
            files.append(StagedFile(entry, wanted.digest, stored, path, state))
    if manifest:
        raise _unfit(family, next(iter(manifest)))
    return directories, tuple(files)


def _unfit(family: KeptFamily, path: bytes) -> DamagedStoreError:
    return DamagedStoreError(
        f"the stored lists of {shown(family.path)} disagree about {shown(path)}",
        "cachekeeper check says what else is hit; choose another snapshot",
    )
