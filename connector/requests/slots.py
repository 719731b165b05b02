"""Limits the number of requests in flight. Further requests wait in a queue."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future


class Slots:
    """A semaphore whose waiters are futures, granted in the order of asking. Thread-safe.

    Args:
        size: at least 1.
    """

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._unused = threading.Condition(self._lock)
        self._size = size
        self._waiting: deque[Future[None]] = deque()
        self._closed = False
        self.used = 0
        """Slots in use."""

    @property
    def waiting(self) -> int:
        """Number of waiters."""
        return sum(not waiter.cancelled() for waiter in tuple(self._waiting))

    def acquire(self) -> Future[None]:
        """Returns a future that is done as soon as its owner has a slot.

        ``cancel()`` of the future ends the wait. It returns False if the owner has the slot already.
        """
        waiter: Future[None] = Future()
        with self._lock:
            if self._closed:
                waiter.cancel()
            else:
                self._waiting.append(waiter)
        self._grant()
        return waiter

    def release(self) -> None:
        """Frees one slot."""
        with self._lock:
            self.used -= 1
            if not self.used:
                self._unused.notify_all()
        self._grant()

    def close(self) -> None:
        """Cancels all waiters, and every further one. The slots in use stay in use. Repeatable."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
        for waiter in waiting:
            waiter.cancel()

    def wait_until_unused(self, timeout: float) -> bool:
        """Waits until no slot is in use, ``timeout`` seconds at most. Returns whether none is in use."""
        with self._lock:
            return self._unused.wait_for(lambda: not self.used, timeout)

    def _grant(self) -> None:
        """Gives free slots to the first waiters."""
        while (waiter := self._next()) is not None:
            waiter.set_result(None)  # without the lock: the callbacks of the future run here

    def _next(self) -> Future[None] | None:
        with self._lock:
            while self._waiting and (self.used < self._size or self._waiting[0].cancelled()):
                waiter = self._waiting.popleft()
                if waiter.set_running_or_notify_cancel():
                    self.used += 1
                    return waiter
            return None
