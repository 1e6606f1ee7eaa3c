"""What is wrong inside a family's files, as far as the formats themselves tell.

Models are pickles that must end where the file ends, binary artifacts carry a checksum. Names,
sizes and indexes are checked by `layouts.structure`.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable
from typing import BinaryIO

from cachekeeper.core.errors import FormatError
from cachekeeper.core.problem import Problem, Severity
from cachekeeper.fs.reading import open_file
from cachekeeper.inspect.artifact_crc import check_artifact
from cachekeeper.inspect.pickle_end import PickleEnd, pickle_end

_MODEL = re.compile(rb"rank_[^/]+/model")
_BINARY_ARTIFACT = re.compile(rb"rank_[^/]+/(?:[^/]+/)?artifact_[^/]+(?<!\.tmp)(?<!\.lock)")

_ZERO_BYTES = 16

_ENDS: dict[PickleEnd, tuple[str, str, Severity]] = {
    "empty": ("empty-model", "0 bytes: the save failed", "damaged"),
    "truncated": ("truncated-model", "the pickle ends before its STOP", "damaged"),
    "trailing": ("trailing-bytes", "bytes stand behind the pickle's STOP", "damaged"),
    "broken": ("damaged-model", "the pickle holds a byte that is no opcode", "damaged"),
    "not-a-pickle": ("unrecognised-model", "no pickle: perhaps another tool's format", "notice"),
}


def check_contents(
    family: bytes,
    files: Iterable[tuple[bytes, int]],
    *,
    trusted: Callable[[bytes], bool] | None = None,
) -> tuple[Problem, ...]:
    """Return the problems inside the files of the family at an absolute path.

    `files` are (path in the family, bytes); empty ones are left to `layouts.structure`. `trusted`
    says that a path's digest is known to be good, so that it need not be read. Never raises.
    """
    problems = []
    for path, size in files:
        check = _check_for(path)
        if check is None or not size or (trusted is not None and trusted(path)):
            continue
        try:
            with open(open_file(os.path.join(family, path)), "rb") as file:
                problem = check(path, file)
        except (OSError, FormatError) as error:
            problem = Problem("unreadable-file", path, _reason(error), "warning")
        if problem is not None:
            problems.append(problem)
    return tuple(problems)


def _reason(error: OSError | FormatError) -> str:
    if isinstance(error, FormatError):
        return "not a regular file"
    if error.errno == errno.ELOOP:  # what opening a link without following it gives
        return "a symbolic link, which is not followed"
    return str(error.strerror)


def _check_for(path: bytes) -> Callable[[bytes, BinaryIO], Problem | None] | None:
    if _MODEL.fullmatch(path):
        return _check_model
    if _BINARY_ARTIFACT.fullmatch(path):
        return _check_artifact
    return None


def _check_model(path: bytes, file: BinaryIO) -> Problem | None:
    end = pickle_end(file)
    if end == "whole":
        return None
    if end == "not-a-pickle" and _begins_with_zeros(file):
        detail = "begins with zeros: its blocks never reached the disk"
        return Problem("damaged-model", path, detail, "damaged")
    code, detail, severity = _ENDS[end]
    return Problem(code, path, detail, severity)


def _check_artifact(path: bytes, file: BinaryIO) -> Problem | None:
    if check_artifact(file) == "damaged":
        return Problem("damaged-artifact", path, "the checksum at its head is wrong", "damaged")
    return None


def _begins_with_zeros(file: BinaryIO) -> bool:
    """Return whether a file shows what a crash leaves of a file that was not synced."""
    file.seek(0)
    return not any(file.read(_ZERO_BYTES))
