"""Records of an odd shape: refused alone, or kept with what they have."""

import pytest
from builders_records import family, link, root

from cachekeeper.catalogue import fields
from cachekeeper.catalogue.projection import project
from cachekeeper.core.errors import FormatError
from cachekeeper.core.record import Record

TOO_LARGE = 2**63


def _without(body, name):
    return {key: value for key, value in body.items() if key != name}


@pytest.mark.parametrize(
    "body",
    [
        {"roots": {}},
        {"roots": ["/root"]},
        {"roots": [{"families": []}]},
        {"roots": [{**root(), "path": 3}]},
        {"roots": [{**root(), "families": None}]},
        {"roots": [{**root(), "links": "aot"}]},
        {"roots": [root([family(1, bytes=TOO_LARGE)])]},
        {"roots": [root([family(1, bytes=2**62), family(2, bytes=2**62)])]},
        {"roots": [root([family(1, bytes=-1)])]},
        {"roots": [root([family(1, bytes=1.0)])]},
        {"roots": [root([family(1, files=True)])]},
        *({"roots": [root([_without(family(1), name)])]} for name in ("build", "key", "files")),
        *(
            {"roots": [root(links=[_without(link(1, "a"), n)])]}
            for n in ("aot", "compile", "source")
        ),
    ],
)
def test_a_snapshot_without_what_an_answer_needs_is_refused(source, body):
    with pytest.raises(FormatError):
        project(source.add("snapshot", body))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("pin", {"name": "fast"}),
        ("pin", {}),
        ("unpin", {"name": "fast", "pin": None}),
        ("status", {"target_kind": "pin", "target": "t"}),
        ("status", {"target_kind": "pin", "target": "t", "status": "floor", "previous": 1}),
    ],
)
def test_other_records_are_refused_alike(source, kind, body):
    with pytest.raises(FormatError):
        project(source.add(kind, body))


def test_a_number_that_sqlite_cannot_hold_is_refused():
    record = Record("unpin", TOO_LARGE, "", "", {"pin": "p"}, "d")
    with pytest.raises(FormatError, match="sequence"):
        project(record)


def test_what_people_wrote_may_be_missing(catalogue, source):
    source.add("snapshot", {})
    source.add("unpin", {"pin": "p"})
    source.add("restore", {"refs": None, "families": []})
    assert [(e.subject, e.detail, e.reason) for e in catalogue.events()[:2]] == [("", "", "")] * 2
    assert catalogue.snapshots()[0].families == 0


def test_a_kind_without_tables_is_a_line_of_history():
    record = Record("run", 3, "now", "store", {"label": "nightly", "metrics": {}}, "d")  # type: ignore[arg-type]
    projection = project(record)
    assert (projection.event["kind"], projection.event["subject"]) == ("run", "nightly")
    assert (projection.facts, projection.families) == ((), ())


def test_text_that_is_not_utf8_is_respelt(catalogue, source):
    source.snapshot(root([family(1)]), message="from caf\udce9, with \0 and é")
    assert catalogue.snapshots()[0].message == "from caf\\udce9, with \0 and é"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("text", "text"), (None, ""), (3, "3"), (["b", {"a": 1}], '["b", {"a": 1}]')],
)
def test_free_text_takes_any_value(value, expected):
    assert fields.free_text({"name": value}, "name") == expected


def test_free_text_may_be_missing():
    assert fields.free_text({}, "name") == ""
