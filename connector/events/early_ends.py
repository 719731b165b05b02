"""The log lines of polls that ended early: the same reason at most once a minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger("connector.events")

_SECONDS: Final = 60.0


class EarlyEnds:
    """Logs why polls ended early. For one thread.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}
        """Reason -> the time of its last line, and the number of polls since then."""

    def add(self, cycle: int, reason: str) -> None:
        """Logs a reason, unless it was logged within the last minute."""
        now = self._clock()
        since, number = self._said.get(reason, (now - _SECONDS, 0))
        if now - since < _SECONDS:
            self._said[reason] = since, number + 1
            return
        self._said = {one: seen for one, seen in self._said.items() if now - seen[0] < _SECONDS}
        self._said[reason] = now, 0
        _log.error("a poll ended early", extra={"cycle": cycle, "reason": reason, "number": number + 1})
