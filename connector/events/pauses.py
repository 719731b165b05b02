"""Pauses of inputs whose events went back to their queue.

A broker counts each delivery. So an input from which something went back is looked at again after a pause.
Each further time doubles the pause, up to a minute. A settled event of the input ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from connector.messaging.destination import Destination

_LEAST: Final = 0.1
_LONGEST: Final = 60.0


class InputPauses:
    """The pauses of the inputs, over all connections. For one thread.

    Args:
        frequency: seconds of PollFrequency, the first pause. The longest pause is a minute, or this.
        clock: returns monotonic seconds.
    """

    def __init__(self, frequency: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._first = max(frequency, _LEAST)
        self._longest = max(frequency, _LONGEST)
        self._clock = clock
        self._pauses: dict[Destination, tuple[float, float]] = {}
        """Input -> the last pause, and the end of the pause, in seconds."""

    def gave_back(self, destination: Destination) -> None:
        """Begins a pause, twice as long as the last pause."""
        before = self._pauses.get(destination)
        pause = self._first if before is None else min(2 * before[0], self._longest)
        self._pauses[destination] = pause, self._clock() + pause

    def end(self, destination: Destination) -> None:
        """Ends the pauses of an input."""
        self._pauses.pop(destination, None)

    def has(self, destination: Destination) -> bool:
        """Whether an input is not to be looked at now."""
        found = self._pauses.get(destination)
        return found is not None and self._clock() < found[1]
