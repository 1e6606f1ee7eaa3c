"""Objects: raw bytes under their digest, mode 0444, written once, link count 1.

Guarantee: an object appears whole under its name or not at all. It is durable only after the
caller's `sync`, which comes before any record that names it.
"""

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from cachekeeper.core.digests import DIGEST_HEX, Hasher, digest_of
from cachekeeper.core.errors import DamagedStoreError, FormatError
from cachekeeper.fs import primitives
from cachekeeper.fs.atomic import ensure_directory
from cachekeeper.fs.reading import CHUNK_BYTES, FileState, hash_file, open_file, read_through

_DIRECTORY = re.compile(rb"[0-9a-f]{2}")
_NAME = re.compile(rb"[0-9a-f]{%d}" % (DIGEST_HEX - 2))
_HINT = "cachekeeper check names every pin and snapshot hit; a mirror may have it"


@dataclass(frozen=True, slots=True)
class Stored:
    """The digest and size of what was put, and the bytes that the store did not have before."""

    digest: str
    size_bytes: int
    new_bytes: int


class Objects:
    """The objects of the store at `store`."""

    def __init__(self, store: bytes) -> None:
        self._top = os.path.join(store, b"objects")
        self._tmp = os.path.join(store, b"tmp")

    def path(self, digest: str) -> bytes:
        """Return where the object with this digest lies or would lie."""
        return os.path.join(self._top, digest[:2].encode("ascii"), digest[2:].encode("ascii"))

    def has(self, digest: str, size_bytes: int) -> bool:
        """Tell whether an object of this digest and size is there (its bytes are not read)."""
        try:
            return os.lstat(self.path(digest)).st_size == size_bytes
        except FileNotFoundError:
            return False

    def put_bytes(self, data: bytes) -> Stored:
        """Store bytes."""
        digest = digest_of(data)
        if self.has(digest, len(data)):
            return Stored(digest, len(data), 0)
        temporary = self._temporary()
        descriptor = primitives.create_file(temporary)
        try:
            primitives.write_all(descriptor, data, temporary)
            self._finish(descriptor, temporary, digest)
        except BaseException:
            _discard(temporary)
            raise
        finally:
            os.close(descriptor)
        return Stored(digest, len(data), len(data))

    def put_file(self, path: bytes) -> tuple[Stored, FileState]:
        """Store a file's content; raises ChangedWhileReadError, OSError.

        A small file is hashed before anything is written; a large one while it is copied, so that
        it is read once.
        """
        descriptor = open_file(path)
        try:
            if os.fstat(descriptor).st_size <= CHUNK_BYTES:
                parts: list[bytes] = []
                state = read_through(descriptor, path, lambda chunk: parts.append(bytes(chunk)))
                return self.put_bytes(b"".join(parts)), state
            return self._copy_in(descriptor, path)
        finally:
            os.close(descriptor)

    def _copy_in(
        self, source: int, path: bytes, over: str | None = None
    ) -> tuple[Stored, FileState]:
        """Store an open file, hashed while it is copied; `over` replaces that object alone."""
        temporary = self._temporary()
        target = primitives.create_file(temporary)
        hasher = Hasher()

        def take(chunk: memoryview) -> None:
            hasher.update(chunk)
            primitives.write_all(target, chunk, temporary)

        try:
            state = read_through(source, path, take)
            digest = hasher.hexdigest()
            if over != digest and (over or self.has(digest, state.size_bytes)):
                primitives.remove_file(temporary)
                return Stored(digest, state.size_bytes, 0), state
            self._finish(target, temporary, digest)
        except BaseException:
            _discard(temporary)
            raise
        finally:
            os.close(target)
        return Stored(digest, state.size_bytes, state.size_bytes), state

    def _finish(self, descriptor: int, temporary: bytes, digest: str) -> None:
        """Give a written temporary file its name; its directory is made when it is missing."""
        primitives.make_read_only(descriptor, temporary)
        final = self.path(digest)
        try:
            primitives.rename(temporary, final)
        except FileNotFoundError:
            ensure_directory(os.path.dirname(final), 0o700)
            primitives.rename(temporary, final)

    def read(self, digest: str, limit_bytes: int) -> bytes:
        """Return an object's bytes, verified; raises DamagedStoreError."""
        path = self.path(digest)
        try:
            with open(path, "rb") as file:
                data = file.read(limit_bytes + 1)
        except OSError as error:
            raise DamagedStoreError(f"the object {digest[:16]} is missing", _HINT) from error
        if len(data) > limit_bytes or digest_of(data) != digest:
            raise DamagedStoreError(f"the object {digest[:16]} is not what its name says", _HINT)
        return data

    def verify(self, digest: str) -> str | None:
        """Return what is wrong with an object (`missing`, `damaged`, `unreadable`), or None."""
        try:
            found, _state = hash_file(self.path(digest))
        except FileNotFoundError:
            return "missing"
        except (OSError, FormatError):
            return "unreadable"
        return None if found == digest else "damaged"

    def replace_damaged(self, digest: str, path: bytes) -> bool:
        """Put good bytes from a file over a damaged object, in one step.

        True where they were the right ones; otherwise the damaged object stays.
        """
        descriptor = open_file(path)
        try:
            stored, _state = self._copy_in(descriptor, path, digest)
        finally:
            os.close(descriptor)
        return stored.digest == digest

    def all_digests(self) -> Iterator[str]:
        """Yield the digest of every object; what has no such name is none."""
        for directory in sorted(os.listdir(self._top)):
            if not _DIRECTORY.fullmatch(directory):
                continue
            for name in sorted(os.listdir(os.path.join(self._top, directory))):
                if _NAME.fullmatch(name):
                    yield (directory + name).decode("ascii")

    def sync(self) -> None:
        """Make all that was put durable."""
        primitives.sync_file_system(self._top)

    def _temporary(self) -> bytes:
        return os.path.join(self._tmp, b"object." + uuid.uuid4().hex.encode("ascii"))


def _discard(temporary: bytes) -> None:
    with suppress(OSError):
        primitives.remove_file(temporary)
