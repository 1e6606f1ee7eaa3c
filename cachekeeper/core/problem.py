"""A problem: something wrong or doubtful in a family, found from the family alone."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["damaged", "incomplete", "warning"]


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is relative to the family, empty for the family itself; `code` is stable for scripts.

    `damaged`: bytes are wrong. `incomplete`: something that belongs here is not here.
    `warning`: nothing is proven wrong, but a person should know.
    """

    code: str
    path: bytes
    detail: str
    severity: Severity
