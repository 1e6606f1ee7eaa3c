from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import unhurried

from cachekeeper.core.clock import utc_text

# 2200-01-01; a float holds microseconds until then.
SECONDS = st.integers(0, 7_258_118_400).map(lambda whole: whole + 0.25)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_700_000_000.123456, "2023-11-14T22:13:20.123456Z"),
        (0.9999999, "1970-01-01T00:00:01.000000Z"),
        (-1.5, "1969-12-31T23:59:58.500000Z"),
    ],
)
def test_times_are_utc_with_microseconds(seconds, expected):
    """UTC whatever the machine's zone, always six digits, always Z."""
    assert expected == utc_text(seconds)


@unhurried
@given(SECONDS)
def test_a_time_can_be_read_back(seconds):
    """The text is ISO 8601 of the same moment."""
    text = utc_text(seconds)
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    assert seconds == moment.timestamp()


@unhurried
@given(SECONDS, SECONDS)
def test_texts_sort_like_times(first, second):
    """Records sort by time when their texts are sorted."""
    assert (first < second) == (utc_text(first) < utc_text(second))
