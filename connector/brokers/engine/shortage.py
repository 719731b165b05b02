"""Inputs that rest, because the memory of a client library does not hold what waits at the broker.

A connection that has run out of memory is made anew, and its consumers begin with few messages. If that does
not help, a message is too large, and nobody knows in which input. So the inputs that have received nothing
are opened one after the other. If the memory ends again, the last opened input rests, and the others go on.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from typing import Final

_log: Final = logging.getLogger("connector.core")

_CALM: Final = 60.0
"""Seconds without a failure after which the next failure is the first one."""
_TURN: Final = 5.0
"""Seconds between two inputs that are opened."""
_REST: Final = 60.0
"""Seconds of the first rest of an input. Each further rest is twice as long."""
_LONGEST_REST: Final = 900.0


class MemoryShortage:
    """The rests of the inputs of one provider, over all its connections."""

    def __init__(self) -> None:
        self._failed_at = -math.inf
        self._opens_at: dict[str, float] = {}
        self._reasons: dict[str, str] = {}
        """Of the inputs that rest, and have not only to wait for the others."""
        self._rests: dict[str, float] = {}
        """The seconds of the next rest."""

    def obstacle(self, name: str) -> str:
        """Returns why an input takes nothing now. Empty = it may."""
        if time.monotonic() >= self._opens_at.get(name, 0.0):
            return ""
        return self._reasons.get(name, "the input waits, because others may have used up the memory")

    def note(self, silent: Sequence[str], reason: str) -> None:
        """Notes that a connection has ended because there was no memory.

        Args:
            silent: the open inputs that have received nothing on this connection.
            reason: of the client library, with what to do.
        """
        now = time.monotonic()
        latest = max([self._failed_at, *(when for when in self._opens_at.values() if when <= now)])
        self._failed_at = now
        if now - latest > _CALM:
            self._opens_at = {name: when for name, when in self._opens_at.items() if when > now}
            return
        waiting = [name for name, when in self._opens_at.items() if when > now and name not in self._reasons]
        if opened := [name for name in silent if name in self._opens_at]:
            last = max(opened, key=self._opens_at.__getitem__)
            rest = self._rests.get(last, _REST)
            self._opens_at[last], self._reasons[last] = now + rest, reason
            self._rests[last] = min(_LONGEST_REST, 2 * rest)
            fields = {"input": last, "seconds": rest, "reason": reason}
            _log.error("an input rests, because a message may be too large for the memory", extra=fields)
        elif not waiting:
            waiting = list(silent)
        for turn, name in enumerate(waiting, 1):
            self._opens_at[name] = now + turn * _TURN
