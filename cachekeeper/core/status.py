"""The statuses a pin, build or snapshot can have; their history is append-only."""

from cachekeeper.core.errors import UsageError

STATUSES = (
    "candidate", "floor", "reference", "promoted", "suspect", "invalidated",
    "rejected:performance", "rejected:quality", "diagnostic",
)  # fmt: skip
FLOOR = "floor"


def parse_status(text: str) -> str:
    """Return a known status; raises UsageError."""
    if text not in STATUSES:
        raise UsageError(f"{text!r} is no status", f"one of: {', '.join(STATUSES)}")
    return text
