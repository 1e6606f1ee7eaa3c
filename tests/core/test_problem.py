from dataclasses import FrozenInstanceError

import pytest

from cachekeeper.core.problem import Problem


@pytest.mark.parametrize(
    ("severity", "expected"),
    [("damaged", True), ("incomplete", True), ("warning", False), ("notice", False)],
)
def test_damage_and_what_is_missing_break_a_unit(severity, expected):
    """A warning or a notice is said, but the unit may be pinned and put back."""
    assert expected == Problem("code", b"", "detail", severity).is_broken


def test_problems_are_values():
    """Equal facts are one problem, another path is another one, and none can be changed."""
    problem = Problem("truncated", b"rank_0_0/model", "no end", "damaged")
    same = Problem("truncated", b"rank_0_0/model", "no end", "damaged")
    other = Problem("truncated", b"rank_1_0/model", "no end", "damaged")
    assert {problem, other} == {problem, same, other}
    with pytest.raises(FrozenInstanceError):
        problem.severity = "warning"
