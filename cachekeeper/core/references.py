"""References: what a user types for a pin, a hash, a build, a snapshot or what is live.

A name is looked up in the order of the command line's contract: an exact pin name wins, then any
unique prefix of 4 to 64 hex digits.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cachekeeper.core.errors import AmbiguousReferenceError, UnknownReferenceError, UsageError

ReferenceKind = Literal["name", "build", "snapshot", "run", "live"]
_MARKS: dict[str, ReferenceKind] = {"b": "build", "s": "snapshot", "r": "run", "live": "live"}
_HEX = re.compile(r"[0-9a-f]{4,64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@=-]{0,127}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference: its kind and the text after the mark."""

    kind: ReferenceKind
    text: str


def parse_reference(text: str) -> Reference:
    """Return the reference in `text`; raises UsageError where it can name nothing."""
    mark, colon, rest = text.partition(":")
    if colon and mark in _MARKS:
        kind = _MARKS[mark]
        rest = rest.removeprefix(f"{mark}:")  # a mark put before a whole reference
        if kind == "run" and not rest:
            raise UsageError(f"{text!r} names no run", "after r: comes a run or its label")
        if kind != "run" and not is_prefix(rest):
            raise UsageError(
                f"{text!r} is no reference: after {mark}: come 4 to 64 hex digits",
                "cachekeeper log lists snapshots, cachekeeper scan lists hashes and builds",
            )
        return Reference(kind, rest)
    if not text:
        raise UsageError("an empty reference names nothing", "cachekeeper pins lists the pins")
    return Reference("name", text)


def is_prefix(text: str) -> bool:
    """Tell whether a text can be the prefix of a hash: 4 to 64 lower-case hex digits."""
    return bool(_HEX.fullmatch(text))


def parse_pin_name(text: str) -> str:
    """Return a valid pin name; raises UsageError."""
    if not _NAME.fullmatch(text):
        raise UsageError(
            f"{text!r} is no pin name",
            "use letters, digits and . _ + @ = - (128 at most, a letter or digit first)",
        )
    return text


def only_match(text: str, matches: Iterable[str], known: Iterable[str]) -> str:
    """Return the only match; raises AmbiguousReferenceError or UnknownReferenceError.

    `known` are all names of the kind: the nearest ones make the hint.
    """
    found = sorted(set(matches))
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousReferenceError(
            f"{text!r} is ambiguous: it fits {', '.join(found)}", "type more of it", tuple(found)
        )
    hint = nearest_hint(text, known, "cachekeeper scan lists what is there")
    raise UnknownReferenceError(f"nothing is known as {text!r}", hint)


def nearest_hint(text: str, known: Iterable[str], otherwise: str) -> str:
    """Return a hint with the known names that look like `text`, `otherwise` where none does."""
    near = nearest(text, known)
    return f"did you mean {' or '.join(near)}?" if near else otherwise


def nearest(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three known names that look like `text`, shortened as hashes are shown."""
    shortened = {name[: max(len(text), 8)]: name for name in known}
    close = difflib.get_close_matches(text, sorted(shortened), n=3, cutoff=0.5)
    return tuple(close)
