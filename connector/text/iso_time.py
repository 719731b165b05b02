"""Times as text for programs, and times that people type."""

from __future__ import annotations

import datetime
import re
import time
from typing import Final

_SPAN: Final = re.compile(r"([0-9]{1,9})(s|m|h|d)\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def iso_time(seconds: float) -> str:
    """Returns a time in seconds since 1970 in ISO 8601, UTC, with milliseconds."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_since(text: str) -> float:
    """Returns the time that a person means, in seconds since 1970: ``2h`` ago, or ``2026-01-31T17:00``.

    Raises:
        ValueError: the text is no time. The error says what is expected.
    """
    if (span := _SPAN.match(text)) is not None:
        return time.time() - int(span[1]) * _SECONDS[span[2]]
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; expected 30m, 2h, 7d, or 2026-01-31T17:00") from None
