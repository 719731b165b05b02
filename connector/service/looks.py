"""Looks at queues that many readers ask for. All readers together cost no more than one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

_PAUSE: Final = 2.0
"""Seconds that an answer is kept, at least."""
_SHARE: Final = 0.05
"""Of the time that looks at one thing may take."""
_MOST: Final = 50
"""Answers that are kept."""


class Looks:
    """Keeps what looks have found, by what was looked at. For any thread.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: dict[Hashable, _Row] = {}

    def get(self, what: Hashable, look: Callable[[], Any]) -> Any:
        """Returns what a look at ``what`` finds, or has found some seconds ago.

        Only one thread looks at the same thing at a time. The others wait for its answer. What ``look``
        raises is not kept.
        """
        with self._lock:
            row = self._rows.pop(what, None) or _Row()
            self._rows[what] = row
            if len(self._rows) > _MOST:
                del self._rows[next(iter(self._rows))]
        with row.lock:
            began = self._clock()
            if began >= row.until:
                row.found = look()
                ended = self._clock()
                row.until = ended + max(_PAUSE, (ended - began) / _SHARE)
            return row.found

    def forget(self) -> None:
        """Lets each look be a new one, because an operator has changed something."""
        with self._lock:
            self._rows.clear()


class _Row:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.until = float("-inf")
        self.found: Any = None
