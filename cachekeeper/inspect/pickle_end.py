"""Finds out whether a pickle is whole by walking its opcodes; nothing is unpickled.

The walk steps over arguments without reading them, so memory is one block however large the file
or whatever a damaged length claims. Opcodes and argument sizes come from `pickletools.opcodes`.
Damage inside an argument is not seen: only a digest finds that.
"""

import os
import pickletools
from collections.abc import Callable
from typing import BinaryIO, Literal

PickleEnd = Literal["whole", "empty", "truncated", "trailing", "broken", "not-a-pickle"]
"""`broken`: it begins as a pickle, and then a byte is no opcode or a length is negative."""

_PROTO = 0x80
_STOP = ord(".")
_HIGHEST_PROTOCOL = 5
_BLOCK_BYTES = 64 * 1024
_TEXT_LINES = {"stringnl_noescape_pair": 2}
# Size in bytes of the length field before an argument, and whether it has a sign.
_LENGTH_FIELDS = {
    pickletools.TAKEN_FROM_ARGUMENT1: (1, False),
    pickletools.TAKEN_FROM_ARGUMENT4: (4, True),
    pickletools.TAKEN_FROM_ARGUMENT4U: (4, False),
    pickletools.TAKEN_FROM_ARGUMENT8U: (8, False),
}


class _BrokenError(Exception):
    """A byte is no opcode, or a length is negative."""


class _TruncatedError(Exception):
    """The file ends inside the pickle."""


class _Reader:
    """Reads forward through a file of known size, one block in memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = os.stat(file.fileno()).st_size
        self._block = b""
        self._block_start = 0
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes, at most 8; raises _TruncatedError."""
        start = self.position - self._block_start
        if start + count > len(self._block):
            self._load()
            start = 0
        taken = self._block[start : start + count]
        if len(taken) < count:
            raise _TruncatedError
        self.position += count
        return taken

    def skip(self, count: int) -> None:
        """Step over bytes; raises _TruncatedError if they are not there."""
        self.position += count
        if self.position > self.size:
            raise _TruncatedError
        if not 0 <= self.position - self._block_start <= len(self._block):
            self._block, self._block_start = b"", self.position

    def skip_line(self) -> None:
        """Step behind the next newline; raises _TruncatedError."""
        while True:
            start = self.position - self._block_start
            found = self._block.find(b"\n", start)
            if found >= 0:
                self.position = self._block_start + found + 1
                return
            self.position = self._block_start + len(self._block)
            self._load()
            if not self._block:
                raise _TruncatedError

    def _load(self) -> None:
        self._file.seek(self.position)
        self._block = self._file.read(_BLOCK_BYTES)
        self._block_start = self.position


_Step = Callable[[_Reader], None]


def pickle_end(file: BinaryIO) -> PickleEnd:
    """Return how the pickle in a file, read from its beginning, ends; raises OSError.

    A protocol below 2 has no mark at its beginning and is `not-a-pickle` here: vLLM and PyTorch
    write protocol 2 and later.
    """
    reader = _Reader(file)
    if not reader.size:
        return "empty"
    head = file.read(2)
    if head[0] != _PROTO or head[1:] > bytes([_HIGHEST_PROTOCOL]):
        return "not-a-pickle"
    try:
        _walk(reader)
    except _TruncatedError:
        return "truncated"
    except _BrokenError:
        return "broken"
    return "whole" if reader.position == reader.size else "trailing"


def _walk(reader: _Reader) -> None:
    """Step behind the first STOP; raises _TruncatedError, _BrokenError."""
    steps = _STEPS
    while True:
        code = reader.take(1)[0]
        if code == _STOP:
            return
        step = steps[code]
        if step is not None:
            step(reader)


def _unknown(_reader: _Reader) -> None:
    raise _BrokenError


def _fixed(count: int) -> _Step:
    return lambda reader: reader.skip(count)


def _lines(count: int) -> _Step:
    def step(reader: _Reader) -> None:
        for _ in range(count):
            reader.skip_line()

    return step


def _counted(width: int, *, signed: bool) -> _Step:
    def step(reader: _Reader) -> None:
        length = int.from_bytes(reader.take(width), "little", signed=signed)
        if length < 0:
            raise _BrokenError
        reader.skip(length)

    return step


def _step_of(argument: pickletools.ArgumentDescriptor | None) -> _Step | None:
    if argument is None:
        return None
    if argument.n == pickletools.UP_TO_NEWLINE:
        return _lines(_TEXT_LINES.get(argument.name, 1))
    if argument.n in _LENGTH_FIELDS:
        width, signed = _LENGTH_FIELDS[argument.n]
        return _counted(width, signed=signed)
    return _fixed(argument.n)


def _all_steps() -> tuple[_Step | None, ...]:
    """Return for each byte how its argument is stepped over; a byte that is no opcode is broken."""
    steps: list[_Step | None] = [_unknown] * 256
    for opcode in pickletools.opcodes:
        steps[ord(opcode.code)] = _step_of(opcode.arg)
    return tuple(steps)


_STEPS = _all_steps()
