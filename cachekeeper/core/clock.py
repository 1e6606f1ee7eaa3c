"""Times as text: UTC, ISO 8601, microseconds, `Z` at the end."""

from datetime import datetime, timezone


def utc_text(seconds: float) -> str:
    """Return seconds since 1970 as `2026-11-30T11:22:33.123456Z`."""
    moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
