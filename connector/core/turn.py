"""One thread at a time, and whoever waits gets its turn."""

from __future__ import annotations

import threading
import time
from types import TracebackType


class Turn:
    """A lock for a loop that holds it nearly all the time and lets others in between two rounds.

    A plain lock is not fair: the thread that has released it mostly gets it again. Repeatable by the
    thread that has it.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._count = threading.Lock()
        self._waiting = 0

    def __enter__(self) -> None:
        if self._lock.acquire(False):
            return
        with self._count:
            self._waiting += 1
        try:
            self._lock.acquire()
        finally:
            with self._count:
                self._waiting -= 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def give_way(self) -> None:
        """Called without the lock, between two rounds: lets a thread that waits go first."""
        while self._waiting:
            time.sleep(0.0005)
