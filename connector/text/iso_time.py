"""Times as text for programs, and times that people type."""

from __future__ import annotations

import datetime
import re
import time
from typing import Final

from connector.text.names import shown

_SPAN: Final = re.compile(r"([0-9]{1,9})(s|m|h|d)\Z")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LAST: Final = 253_402_214_400.0
"""The last day of the year 9999: later times have no date in some zones."""


def iso_time(seconds: float) -> str:
    """Returns a time in seconds since 1970 in ISO 8601, UTC, with milliseconds.

    Whoever sends a message decides about its times. A time that no calendar has becomes the nearest one.
    """
    try:
        moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        end = datetime.datetime.min if seconds < 0 else datetime.datetime.max
        moment = end.replace(tzinfo=datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_since(text: str) -> float:
    """Returns the time that a person means, in seconds since 1970: ``2h`` ago, or ``2026-01-31T17:00``.

    Raises:
        ValueError: the text is no time. The error says what is expected.
    """
    expected = "expected 30m, 2h, 7d, or 2026-01-31T17:00"
    if (span := _SPAN.match(text)) is not None:
        since = time.time() - int(span[1]) * _SECONDS[span[2]]
    else:
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{shown(text)} is no time; {expected}") from None
        try:
            since = moment.timestamp()
        except (ValueError, OverflowError):
            since = -1.0
    if not 0 <= since <= _LAST:
        raise ValueError(f"{shown(text)} is not in the years 1970 to 9999; {expected}")
    return since
