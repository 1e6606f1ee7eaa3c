"""Cache paths are bytes; this is how they are written as text and what is refused.

Text form: printable ASCII as it is, every other byte and `%` as `%XX`; the empty path is `%`.
It is reversible for any bytes, also for names that are not UTF-8 or hold a newline.
"""

import re

from cachekeeper.core.errors import FormatError

_EMPTY = "%"
_ESCAPE = re.compile(rb"[^\x21-\x24\x26-\x7e]")
_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_WELL_FORMED = re.compile(r"(?:[\x21-\x24\x26-\x7e]|%[0-9A-F]{2})+")


def path_text(path: bytes) -> str:
    """Return the reversible text form of a relative or absolute path."""
    if not path:
        return _EMPTY
    return _ESCAPE.sub(lambda match: b"%%%02X" % match[0][0], path).decode("ascii")


def parse_path(text: str) -> bytes:
    """Return the bytes of a path's text form; raises FormatError for any other spelling of it."""
    if text == _EMPTY:
        return b""
    if not _WELL_FORMED.fullmatch(text):
        raise FormatError(f"{text!r} is not a well-formed path")
    path = _ESCAPED.sub(lambda match: bytes([int(match[1], 16)]), text.encode("ascii"))
    if "%" in text and path_text(path) != text:
        raise FormatError(f"{text!r} escapes what needs no escape")
    return path


def check_inside(path: bytes) -> bytes:
    """Return a relative path that stays inside its tree; raises FormatError.

    An absolute path, an empty, `.` or `..` component or a NUL byte could reach another place.
    """
    if path and (b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/"))):
        raise FormatError(f"the path {path_text(path)} leaves its tree")
    return path


def path_below(top: bytes, path: bytes) -> bytes:
    """Return the path of an entry below `top`; the empty path is `top` itself."""
    return top + b"/" + path if path else top


def shown(path: bytes) -> str:
    """Return a path for people: UTF-8 where it is, other bytes and control characters escaped."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
