"""Times as text for programs."""

from __future__ import annotations

import datetime


def iso_time(seconds: float) -> str:
    """Returns a time in seconds since 1970 in ISO 8601, UTC, with milliseconds."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
