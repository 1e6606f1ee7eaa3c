import pytest

from cachekeeper.core.errors import UsageError
from cachekeeper.core.status import FLOOR, STATUSES, parse_status


def test_the_statuses_are_those_of_the_design():
    """The words are fixed: records that people keep for years hold them."""
    expected = (
        "candidate floor reference promoted suspect invalidated "
        "rejected:performance rejected:quality diagnostic"
    )
    assert expected.split() == list(STATUSES)
    assert FLOOR in STATUSES


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_is_accepted(status):
    """A known status is returned as it is."""
    assert status == parse_status(status)


@pytest.mark.parametrize("text", ["", "Floor", "rejected", "floor ", "best"])
def test_other_words_are_refused_with_the_list(text):
    """An unknown word is wrong usage, and the hint lists the known ones."""
    with pytest.raises(UsageError, match="is no status") as caught:
        parse_status(text)
    assert all(status in caught.value.hint for status in STATUSES)
