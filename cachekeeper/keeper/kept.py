"""What records say of a family and of a link, as values: parsed once, trusted after."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cachekeeper.core.digests import parse_digest
from cachekeeper.core.errors import FormatError
from cachekeeper.core.paths import check_inside, parse_path, path_text
from cachekeeper.core.problem import Problem
from cachekeeper.layouts.families import FamilyKind, FamilyPlace
from cachekeeper.layouts.units import Link

_KINDS: tuple[FamilyKind, ...] = ("aot", "compile", "other")


@dataclass(frozen=True, slots=True)
class KeptFamily:
    """One family as a record holds it; `build` and `attributes` are object digests.

    `problems` are the codes of what was damaged or incomplete when it was stored.
    """

    kind: FamilyKind
    key: str
    path: bytes
    build: str
    attributes: str
    files: int
    size_bytes: int
    ranks: tuple[str, ...]
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the family as a record's body holds it."""
        return {
            "kind": self.kind,
            "key": self.key,
            "path": path_text(self.path),
            "build": self.build,
            "attributes": self.attributes,
            "files": self.files,
            "bytes": self.size_bytes,
            "ranks": list(self.ranks),
            "problems": list(self.problems),
        }


def parse_family(body: Mapping[str, Any]) -> KeptFamily:
    """Return the family in a record's body; raises FormatError.

    The path is checked here, where it enters: a record from elsewhere must not reach outside.
    """
    try:
        return KeptFamily(
            kind=_family_kind(body["kind"]),
            key=str(body["key"]),
            path=_family_path(str(body["path"])),
            build=parse_digest(str(body["build"])),
            attributes=parse_digest(str(body["attributes"])),
            files=int(body["files"]),
            size_bytes=int(body["bytes"]),
            ranks=tuple(str(rank) for rank in body["ranks"]),
            problems=tuple(str(code) for code in body.get("problems", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"a record describes a family without {error}") from error


def families_of(body: Mapping[str, Any], root: str | None = None) -> tuple[KeptFamily, ...]:
    """Return the families in a snapshot's body, of one root or of all."""
    return tuple(
        parse_family(family)
        for place in body["roots"]
        if root is None or place["path"] == root
        for family in place["families"]
    )


def links_to_json(links: Iterable[Link]) -> list[dict[str, str]]:
    """Return links as a record's body holds them."""
    return [
        {"aot": link.aot, "compile": link.compile, "source": link.source, "detail": link.detail}
        for link in links
    ]


def parse_links(body: Iterable[Mapping[str, Any]]) -> tuple[Link, ...]:
    """Return the links in a record's body; raises FormatError."""
    sources = {"log": "log", "handles": "handles", "run": "run", "inferred": "inferred"}
    try:
        return tuple(
            Link(item["aot"], item["compile"], sources[item["source"]], item["detail"])  # type: ignore[arg-type]  # one of four words
            for item in body
        )
    except (KeyError, TypeError) as error:
        raise FormatError(f"a record describes a link without {error}") from error


def _family_path(text: str) -> bytes:
    path = check_inside(parse_path(text))
    if not path:
        raise FormatError("a record describes a family that is the whole root")
    return path


def _family_kind(word: object) -> FamilyKind:
    for kind in _KINDS:
        if kind == word:
            return kind
    raise FormatError(f"a record describes a family of the unknown kind {word!r}")


def place_of(family: KeptFamily) -> FamilyPlace:
    """Return where a kept family lives in its root."""
    return FamilyPlace(family.kind, family.key, family.path, recognised=True, note="")


def broken_codes(problems: Iterable[Problem]) -> tuple[str, ...]:
    """Return the codes of what was damaged or incomplete, each once, as a record keeps them."""
    return tuple(sorted({problem.code for problem in problems if problem.is_broken}))
