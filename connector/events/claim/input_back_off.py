"""The back-off of an input whose events went back to their queue.

A broker counts each delivery. So an input from which something went back is looked at again after a pause.
Each further time doubles the pause, up to a minute. A settled event of the input ends it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_LEAST: Final = 0.1
_LONGEST: Final = 60.0


class InputBackOff:
    """The back-off of one input, over all connections. For one thread.

    Args:
        frequency: seconds of PollFrequency, the first pause. The longest pause is a minute, or this.
        clock: returns monotonic seconds.
    """

    def __init__(self, frequency: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._first = max(frequency, _LEAST)
        self._longest = max(frequency, _LONGEST)
        self._clock = clock
        self._last = self._until = 0.0

    def begin(self) -> None:
        """Begins a pause, twice as long as the last pause."""
        self._last = min(2 * self._last, self._longest) if self._last else self._first
        self._until = self._clock() + self._last

    def end(self) -> None:
        """Ends the pause. The next one is the first again."""
        self._last = self._until = 0.0

    @property
    def is_on(self) -> bool:
        """Whether the input is not to be looked at now."""
        return self._last > 0 and self._clock() < self._until
