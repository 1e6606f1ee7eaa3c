"""Remembered digests and problems: which live files were not written since they were read.

Only a saving of reading, never evidence: a digest is trusted only while size, mtime, ctime, inode
and device are the same and the file was old enough, when it was hashed, for a later write to show
(git's racy rule). Pinned families are hashed all the same. What was wrong with a family is known
again while its build and its attributes are the same.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from cachekeeper.core.errors import FormatError
from cachekeeper.core.paths import parse_path, path_text
from cachekeeper.core.problem import Problem, Severity
from cachekeeper.fs.reading import FileState

Memory = Mapping[bytes, tuple[FileState, str]]
_HEADER = "cachekeeper-memory 2"
_LIMIT_BYTES = 256 << 20
_SEVERITIES: tuple[Severity, ...] = ("damaged", "incomplete", "warning", "notice")


@dataclass(frozen=True, slots=True)
class Health:
    """What was wrong with a family of exactly this build and these attributes.

    `structure` was found by names, sizes and indexes, `inside` by reading models and artifacts.
    """

    build: str
    attributes: str
    structure: tuple[Problem, ...]
    inside: tuple[Problem, ...]


def encode_memory(memory: Memory, health: Health | None = None) -> bytes:
    """Return a family's memory as compressed text."""
    lines = [_HEADER, *(() if health is None else _health_lines(health))]
    for path, (state, digest) in memory.items():
        times = f"{state.mtime_ns} {state.ctime_ns}"
        place = f"{state.inode} {state.device}"
        lines.append(f"{state.size_bytes} {times} {place} {digest} {path_text(path)}")
    return zlib.compress("\n".join(lines).encode("ascii"), 1)


def _health_lines(health: Health) -> list[str]:
    lines = [f"health {health.build} {health.attributes}"]
    for word, problems in (("structure", health.structure), ("inside", health.inside)):
        for problem in problems:
            detail = path_text(problem.detail.encode("utf-8", "surrogateescape"))
            where = path_text(problem.path)
            lines.append(f"{word} {problem.severity} {problem.code} {where} {detail}")
    return lines


def decode_memory(data: bytes) -> dict[bytes, tuple[FileState, str]]:
    """Return the memory in `data`; an unreadable one is no memory."""
    try:
        return dict(_parse(line) for line in _lines(data) if line[:1].isdigit())
    except (ValueError, FormatError):
        return {}


def decode_health(data: bytes) -> Health | None:
    """Return what was wrong, None where `data` does not say."""
    try:
        lines = [line.split(" ") for line in _lines(data) if line[:1].isalpha()]
        if not lines:
            return None
        (_word, build, attributes), *problems = lines
        found = {
            kind: tuple(_parse_problem(*rest) for word, *rest in problems if word == kind)
            for kind in ("structure", "inside")
        }
        return Health(build, attributes, found["structure"], found["inside"])
    except (ValueError, TypeError, FormatError):
        return None


def _lines(data: bytes) -> list[str]:
    """Return the lines below the header; raises ValueError."""
    try:
        text = zlib.decompressobj().decompress(data, _LIMIT_BYTES).decode("ascii")
    except zlib.error as error:
        raise ValueError(str(error)) from error
    header, *lines = text.split("\n")
    return lines if header == _HEADER else []


def _parse_problem(severity: str, code: str, path: str, detail: str) -> Problem:
    known = _SEVERITIES[_SEVERITIES.index(severity)]  # raises ValueError
    text = parse_path(detail).decode("utf-8", "surrogateescape")
    return Problem(code, parse_path(path), text, known)


def _parse(line: str) -> tuple[bytes, tuple[FileState, str]]:
    size, mtime, ctime, inode, device, digest, path = line.split(" ")
    state = FileState(int(size), int(mtime), int(ctime), int(inode), int(device))
    return parse_path(path), (state, digest)
