import pytest

from cachekeeper.core import errors
from cachekeeper.core.errors import AmbiguousReferenceError, KeeperError

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, KeeperError)
]
CODES = {
    "KeeperError": 5,
    "UsageError": 2,
    "UnknownReferenceError": 2,
    "AmbiguousReferenceError": 2,
    "RefusedError": 3,
    "NewerFormatError": 3,
    "DamagedStoreError": 3,
    "BusyError": 4,
    "IoError": 5,
    "FormatError": 3,
}


def test_each_error_has_the_exit_code_of_the_contract():
    """The exit codes of docs/reference/exit-codes.md: usage 2, refused 3, busy 4, failed 5."""
    assert {error.__name__: error.exit_code for error in CLASSES} == CODES


@pytest.mark.parametrize("error", [e for e in CLASSES if e is not AmbiguousReferenceError])
def test_an_error_carries_its_fact_and_hint(error):
    """The fact is the text of the error, the hint stands apart and may be missing."""
    raised = error("it is so", "do this")
    assert (str(raised), raised.fact, raised.hint) == ("it is so", "it is so", "do this")
    assert error("it is so").hint == ""


def test_an_ambiguous_reference_carries_its_candidates():
    """The candidates are facts too, for scripts."""
    raised = AmbiguousReferenceError("two", "more", ("a", "b"))
    assert (raised.fact, raised.hint, raised.candidates) == ("two", "more", ("a", "b"))
