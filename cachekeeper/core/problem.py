"""A problem: something wrong or doubtful in a family, found from the family alone."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["damaged", "incomplete", "warning", "notice"]


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is relative to the family, empty for the family itself; `code` is stable for scripts.

    `damaged`: bytes are wrong. `incomplete`: something that belongs here is not here.
    `warning`: it would not work, or not as it looks (a handle to another place); a finding.
    `notice`: nothing is wrong, but a person should know; no finding.
    """

    code: str
    path: bytes
    detail: str
    severity: Severity

    @property
    def is_broken(self) -> bool:
        """Tell whether a unit with this problem must not be pinned or put back."""
        return self.severity in ("damaged", "incomplete")
