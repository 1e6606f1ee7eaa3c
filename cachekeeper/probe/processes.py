"""Running processes as /proc tells of them: values only, nothing is decided here. Reads only.

A process may end between any two calls: then the system's own error comes through
(FileNotFoundError, ProcessLookupError), and PermissionError for another user's process.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property

_PARENT = re.compile(rb"^PPid:\s*(\d+)", re.MULTILINE)
_MAPPED = re.compile(rb"^(?:\S+\s+){5}(/.*)$", re.MULTILINE)
_LIMIT_BYTES = 16 << 20


class Processes:
    """The processes below `place`, which is /proc but for tests."""

    def __init__(self, place: bytes = b"/proc") -> None:
        self._place = place

    def ids(self) -> list[int]:
        """Return the ids of all processes, sorted."""
        return sorted(int(name) for name in os.listdir(self._place) if name.isdigit())

    def path(self, pid: int, name: bytes) -> bytes:
        """Return the path of one of a process's files."""
        return os.path.join(self._place, b"%d" % pid, name)

    def arguments(self, pid: int) -> list[bytes]:
        """Return the command line, or the title written over it; one empty word for the dead."""
        try:
            return self._read(pid, b"cmdline").rstrip(b"\0").split(b"\0")
        except OSError:
            return [b""]

    def environment(self, pid: int) -> Mapping[str, str] | None:
        """Return the environment a process was started with, None where it was written over.

        setproctitle puts zeros over the first part of it, as far as the process has set no variable
        anew; what is left looks whole but may lack any variable.
        """
        data = self._read(pid, b"environ").removesuffix(b"\0")
        items = data.split(b"\0") if data else []
        if any(b"=" not in item for item in items):
            return None
        pairs = (item.partition(b"=") for item in items)
        return {os.fsdecode(name): os.fsdecode(value) for name, _mark, value in pairs}

    def parent(self, pid: int) -> int:
        """Return the parent's id, 0 where there is none."""
        match = _PARENT.search(self._read(pid, b"status"))
        return int(match[1]) if match else 0

    def children(self, pid: int) -> tuple[int, ...]:
        """Return the ids of a process's children, as they were when this was first asked."""
        return tuple(child for child, parent in self._parents.items() if parent == pid)

    def open_files(self, pid: int) -> Iterator[bytes]:
        """Yield what a process's descriptors lead to."""
        descriptors = self.path(pid, b"fd")
        for name in os.listdir(descriptors):
            try:
                yield os.readlink(os.path.join(descriptors, name))
            except FileNotFoundError:
                continue

    def mapped_files(self, pid: int) -> tuple[bytes, ...]:
        """Return the files that a process has mapped into its memory, each once."""
        found = _MAPPED.findall(self._read(pid, b"maps"))
        return tuple(dict.fromkeys(found))

    def working_directory(self, pid: int) -> bytes:
        """Return the directory that a process's relative paths start from."""
        return os.readlink(self.path(pid, b"cwd"))

    @cached_property
    def _parents(self) -> Mapping[int, int]:
        found = {}
        for pid in self.ids():
            try:
                found[pid] = self.parent(pid)
            except OSError:
                continue  # it ended meanwhile
        return found

    def _read(self, pid: int, name: bytes) -> bytes:
        with open(self.path(pid, name), "rb") as file:
            return file.read(_LIMIT_BYTES)
