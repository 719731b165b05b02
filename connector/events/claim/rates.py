"""The key ``rate`` of an input: how many messages this instance may claim of an input now."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_BATCHES_A_SECOND: Final = 10
"""Polls of an input that waits for its rate, at most. So a fast input is not polled for each message."""


class RateLimit:
    """A token bucket. It holds the messages of a second, or one message if that is more. For one thread.

    Args:
        rate: messages a second.
        clock: returns monotonic seconds.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._most = max(1.0, rate)
        self._clock = clock
        self._left = self._most
        self._seen = clock()

    def allowed(self) -> int:
        """Returns how many messages may be claimed now."""
        return int(self._refill() + 1e-6)

    def note(self, claimed: int) -> None:
        """Takes claimed messages out of the bucket."""
        self._left -= claimed

    def seconds(self) -> float:
        """Returns the seconds until an input with more is worth a poll. 0 = now."""
        worth = max(1.0, self._rate / _BATCHES_A_SECOND)
        return max(0.0, worth - self._refill()) / self._rate

    def _refill(self) -> float:
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._seen) * self._rate)
        self._seen = now
        return self._left
