"""What records say becomes values once, and nothing from elsewhere reaches outside a root."""

import pytest

from cachekeeper.core.errors import FormatError
from cachekeeper.core.problem import Problem
from cachekeeper.keeper.kept import (
    KeptFamily,
    broken_codes,
    families_of,
    links_to_json,
    parse_family,
    parse_links,
    place_of,
)
from cachekeeper.layouts.units import Link

FAMILY = KeptFamily(
    kind="aot", key="a" * 64, path=b"x/\xff y", build="b" * 64, attributes="c" * 64, files=2,
    size_bytes=9, ranks=("rank_0_0",), problems=("empty-model",),
)  # fmt: skip
LINK = Link("a" * 64, "0123456789", "handles", "3 of 3")


def test_a_family_survives_its_record():
    """Any path and all fields come back."""
    assert parse_family(FAMILY.to_json()) == FAMILY


def test_links_survive_their_record():
    """So do links with their evidence."""
    assert parse_links(links_to_json([LINK])) == (LINK,)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("path", "/etc/passwd"), ("path", "a/../b"), ("path", "%zz"), ("build", "xyz"),
        ("attributes", ""), ("kind", "strange"), ("files", "many"), ("ranks", 7), ("bytes", None),
    ],
)  # fmt: skip
def test_odd_families_are_refused(field, value):
    """A path that leaves the root, a digest that is none, a word nobody knows."""
    with pytest.raises(FormatError):
        parse_family(FAMILY.to_json() | {field: value})


@pytest.mark.parametrize("field", ["kind", "key", "path", "build", "attributes", "ranks"])
def test_missing_fields_are_refused(field):
    """A family is whole or not there."""
    body = FAMILY.to_json()
    del body[field]
    with pytest.raises(FormatError):
        parse_family(body)


def test_older_records_have_no_problems():
    """Only what was broken has the field."""
    body = FAMILY.to_json()
    del body["problems"]
    assert parse_family(body).problems == ()


@pytest.mark.parametrize("change", [{"source": "guessed"}, {"aot": None}, {}])
def test_odd_links_are_refused(change):
    """Evidence of an unknown kind and missing ends are refused."""
    (body,) = links_to_json([LINK])
    body |= change
    if not change:
        del body["compile"]
    if change.get("aot", "") is None:
        del body["aot"]
    with pytest.raises(FormatError):
        parse_links([body])


def test_families_of_one_root_or_all():
    """A snapshot's families are had for one root as well."""
    body = {"roots": [{"path": path, "families": [FAMILY.to_json()]} for path in ("/a", "/b")]}
    assert families_of(body) == (FAMILY, FAMILY)
    assert families_of(body, "/a") == (FAMILY,)
    assert families_of(body, "/c") == ()


def test_a_family_knows_its_place():
    """The place of a kept family is where it was."""
    place = place_of(FAMILY)
    assert (place.kind, place.key, place.path) == ("aot", "a" * 64, b"x/\xff y")


def test_only_what_is_broken_is_marked():
    """Codes of damage and incompleteness, each once; warnings and notices are no mark."""
    problems = [
        Problem(code, b"", "", severity)
        for code, severity in (
            ("empty-model", "damaged"), ("missing-rank", "incomplete"), ("empty-model", "damaged"),
            ("foreign-path", "warning"), ("unpacked-format", "notice"),
        )
    ]  # fmt: skip
    assert broken_codes(problems) == ("empty-model", "missing-rank")
