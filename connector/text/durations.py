"""Durations as texts: ``500ms``, ``30s``, ``5m``, ``2h``, ``7d``."""

from __future__ import annotations

import re
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds of each unit."""
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)\Z")


def read_duration(text: str) -> float | None:
    """Returns the seconds of a duration. None = the text is none."""
    match = _DURATION.match(text)
    return float(match[1]) * UNITS[match[2]] if match else None
