import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import RECORD_FIELDS, damaged, unhurried

from cachekeeper.core.digests import digest_of
from cachekeeper.core.errors import FormatError, NewerFormatError
from cachekeeper.core.record import RECORD_FORMAT, Record, parse_record, record_bytes

WHOLE = {
    "format": 1,
    "kind": "pin",
    "sequence": 7,
    "at": "2026-11-30T11:22:33.123456Z",
    "store": "5" * 32,
    "body": {"name": "fast"},
}


def _with(**changes):
    fields = {**WHOLE, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


@unhurried
@given(RECORD_FIELDS)
def test_a_record_survives_its_bytes(fields):
    """Parsing a record's bytes gives its fields and the digest of these bytes."""
    data = record_bytes(*fields)
    assert Record(*fields, digest_of(data)) == parse_record(data)


@unhurried
@given(RECORD_FIELDS)
def test_bytes_are_canonical(fields):
    """Records that are parsed and written again have the same bytes, in one ASCII line."""
    data = record_bytes(*fields)
    record = parse_record(data)
    assert data == record_bytes(record.kind, record.sequence, record.at, record.store, record.body)
    assert (data.isascii(), data.count(b"\n"), data.endswith(b"\n")) == (True, 1, True)


@unhurried
@given(RECORD_FIELDS, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(fields, random):
    """Two equal bodies make one record, in whatever order their keys came."""
    *head, body = fields
    items = list(body.items())
    random.shuffle(items)
    assert record_bytes(*fields) == record_bytes(*head, dict(items))


@unhurried
@given(st.data())
def test_damage_never_crashes_the_reader(data):
    """Damaged bytes are refused, or are a whole record with another digest."""
    intact = record_bytes(*data.draw(RECORD_FIELDS))
    text = data.draw(damaged(intact))
    try:
        record = parse_record(text)
    except (FormatError, NewerFormatError):
        return
    assert (text == intact) == (record.digest == digest_of(intact))


def test_the_bytes_are_those_of_the_format_page():
    """Sorted keys, no spaces, one final newline."""
    assert record_bytes(
        "pin", 17, "2026-11-30T11:22:33.123456Z", "ab", {"b": [1, None], "a": "é"}
    ) == (
        b'{"at":"2026-11-30T11:22:33.123456Z","body":{"a":"\\u00e9","b":[1,null]},"format":1,'
        b'"kind":"pin","sequence":17,"store":"ab"}\n'
    )


def test_fields_that_a_later_version_added_do_no_harm():
    """A field that nobody knows is left alone, as the format has the same number."""
    assert parse_record(_with(extra=1)).kind == "pin"


@pytest.mark.parametrize("number", [RECORD_FORMAT + 1, 10**30])
def test_a_newer_format_is_refused_with_the_way_out(number):
    """A record of a newer cachekeeper is told apart from a damaged one."""
    with pytest.raises(NewerFormatError, match=f"format {number}") as caught:
        parse_record(_with(format=number, kind="unheard of"))
    assert caught.value.hint == "upgrade cachekeeper"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b'"record"',
        b"\xff\xfe",
        b"{" * 200_000,
        b"[" * 200_000,
        _with()[:-1],
        _with() + b"{}",
        b'{"format": ' + b"1" * 5000 + b"}",
        *(_with(**{name: ...}) for name in WHOLE),
        *(_with(format=value) for value in ("1", 1.0, None, True, 0, -1)),
        *(_with(kind=value) for value in ("PIN", "", None, 1, ["pin"])),
        *(_with(sequence=value) for value in ("7", 7.0, None, True, -1)),
        *(_with(at=value) for value in (None, 0)),
        *(_with(store=value) for value in (None, 0)),
        *(_with(body=value) for value in (None, [], "text")),
    ],
)
def test_what_is_no_whole_record_is_refused(data):
    """No JSON, too deep, a field missing or of another type: all are refused."""
    with pytest.raises(FormatError):
        parse_record(data)
