"""Reads `vllm_compile_cache.py`, vLLM's index of the artifacts of one rank, without running it.

The file is one Python literal (vllm/compilation/backends.py, `save_to_file`), written in place, so
a torn one can be met. Shapes, by version:
  0.17 to 0.32: {((start, end), i, 'inductor_standalone'): {'graph_handle': (name, path),
                 'cache_key': key}}
  0.10 to 0.13: {(shape | None | (start, end), i, 'inductor_standalone'): (name, path)}
  0.8:          {(shape | None, i, 'inductor'): (hash, path of the generated .py)}
Anything else is a problem, never an exception.
"""

import ast
import re
from dataclasses import dataclass

from cachekeeper.core.errors import FormatError
from cachekeeper.layouts.listing import SmallFileReader

UNREADABLE = "unreadable index"
# A handle has about 30 tokens; 6,000 of them are 100 subgraphs times 60 compile sizes.
_MAX_TOKENS = 200_000
_MAX_DEPTH = 8
# What `pprint` writes for such a value, and no more: no operator, name, call, comment or prefix.
# It bounds what the parser of Python, which neither limits depth nor memory, is given.
_TOKEN = re.compile(
    r"""[ \t\r\n]*(
      '(?:[^'\\\r\n]|\\[\\'"nrtxuU]){0,8192}'
    | "(?:[^"\\\r\n]|\\[\\'"nrtxuU]){0,8192}"
    | -?[0-9]{1,18}(?![0-9])
    | None(?!\w)
    | [(){}\[\],:]
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Handle:
    """One artifact as the index names it: shape range (none: any shape), subgraph, name, path.

    `path` is absolute where vLLM wrote it; `cache_key` is the AOTAutograd key, empty before 0.17.
    """

    range_start: int | None
    range_end: int | None
    graph_index: int
    name: str
    path: bytes
    cache_key: str


@dataclass(frozen=True, slots=True)
class Index:
    """The handles of an index; with a problem there are none."""

    handles: tuple[Handle, ...]
    problem: str | None


def read_index(path: bytes, read: SmallFileReader) -> Index:
    """Return the index in a file; what cannot be read is a problem."""
    try:
        content = read(path)
    except (OSError, FormatError) as error:
        return _unreadable(str(error))
    return parse_index(content)


def parse_index(content: bytes) -> Index:
    """Return the index written in `content`."""
    try:
        text = content.decode("utf-8")
        _check_tokens(text)
        value = ast.literal_eval(text)
        if not isinstance(value, dict):
            return _unreadable("not a dict")
        return Index(tuple(_handle(key, kept) for key, kept in value.items()), None)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        return _unreadable(str(error))


def _unreadable(reason: str) -> Index:
    return Index((), f"{UNREADABLE}: {reason}")


def _check_tokens(text: str) -> None:
    """Refuse text that is not made of few, shallow, plain tokens; raises ValueError."""
    end = len(text.rstrip(" \t\r\n"))
    position = count = depth = 0
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"no plain literal at character {position}")
        count += 1
        depth += (match[1] in "([{") - (match[1] in ")]}")
        if count > _MAX_TOKENS or depth > _MAX_DEPTH:
            raise ValueError("more or deeper values than an index has")
        position = match.end()


def _handle(key: object, value: object) -> Handle:
    """Return the handle of one item; raises ValueError, TypeError."""
    if not (isinstance(key, tuple) and len(key) == 3 and isinstance(key[1], int)):
        raise ValueError("a key is not (range, graph index, compiler)")
    start, end = _range(key[0])
    cache_key: object = ""
    if isinstance(value, dict):
        cache_key = value.get("cache_key", "")
        value = value.get("graph_handle")
    if not (isinstance(value, tuple) and len(value) == 2):
        raise ValueError("a handle is not (name, path)")
    name, path = value
    if not (isinstance(name, str) and isinstance(path, str) and isinstance(cache_key, str)):
        raise TypeError("a handle is not made of text")
    return Handle(start, end, key[1], name, _path_bytes(path), cache_key)


def _range(shape: object) -> tuple[int | None, int | None]:
    match shape:
        case None:
            return None, None
        case int(size):
            return size, size
        case (int(start), int(end)):
            return start, end
    raise ValueError("a shape range is not understood")


def _path_bytes(path: str) -> bytes:
    if not path or "\0" in path:
        raise ValueError("a path is empty or holds a NUL")
    return path.encode("utf-8", "surrogateescape")
