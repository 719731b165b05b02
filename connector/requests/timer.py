"""Calls functions at set times, in one thread for all. Serves requests that no thread waits for."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

_log = logging.getLogger("connector.requests")

_MIN_ENTRIES: Final = 1000
"""Smallest number of entries at which finished entries are removed."""


class Timer:
    """A thread-safe timer. Its thread lives from the first :meth:`at` to :meth:`stop`."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._numbers = itertools.count()
        self._times: list[tuple[float, int, Callable[[], object], Callable[[], bool]]] = []
        self._many = _MIN_ENTRIES
        self._thread: threading.Thread | None = None
        self._ending = False

    def at(self, when: float, then: Callable[[], object], is_over: Callable[[], bool]) -> None:
        """Calls ``then``, which must return soon, at ``when`` by the monotonic clock.

        A stopped clock never calls.

        The clock may remove the entry once ``is_over`` is true: most requests end long before their time.
        """
        with self._condition:
            if len(self._times) >= self._many:
                self._times = [one for one in self._times if not one[3]()]
                heapq.heapify(self._times)
                self._many = max(_MIN_ENTRIES, 2 * len(self._times))
            heapq.heappush(self._times, (when, next(self._numbers), then, is_over))
            if self._thread is None and not self._ending:
                self._thread = threading.Thread(target=self._run, name="connector-clock", daemon=True)
                self._thread.start()
            elif self._times[0][0] == when:
                self._condition.notify()

    def stop(self) -> None:
        """Removes all entries and ends the thread. Repeatable."""
        with self._condition:
            self._ending = True
            self._times.clear()
            thread = self._thread
            self._condition.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                if self._ending:
                    return
                left = self._times[0][0] - time.monotonic() if self._times else None
                if left is None or left > 0:
                    self._condition.wait(left)
                    continue
                then = heapq.heappop(self._times)[2]
            try:
                then()
            except Exception:
                _log.exception("a timer failed in a way that it should not")
