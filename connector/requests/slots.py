"""Limits the number of requests in flight. Further requests wait in a queue."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Waiter:
    """A request that waits for a slot.

    Args:
        granted: called with this waiter, in any thread, when the waiter gets a slot or when the slots are
            closed.
    """

    __slots__ = ("granted", "has_slot")

    def __init__(self, granted: Callable[[Waiter], object]) -> None:
        self.granted = granted
        self.has_slot = False


class Slots:
    """A number of slots, granted in the order of asking. Thread-safe.

    Args:
        size: at least 1.
    """

    def __init__(self, size: int) -> None:
        self._lock = threading.Lock()
        self._free = threading.Condition(self._lock)
        self._size = size
        self._used = 0
        self._waiting: deque[Waiter] = deque()

    @property
    def used(self) -> int:
        """Slots in use."""
        return self._used

    @property
    def waiting(self) -> int:
        """Number of waiters."""
        return len(self._waiting)

    def try_take(self) -> bool:
        """Takes a slot if one is free. Returns whether a slot was taken."""
        with self._lock:
            free = self._used < self._size and not self._waiting
            self._used += free
            return free

    def queue(self, granted: Callable[[Waiter], object]) -> Waiter:
        """Queues for a slot. Calls ``granted``, maybe at once, when this waiter gets a slot."""
        waiter = Waiter(granted)
        with self._lock:
            if self._used < self._size and not self._waiting:
                self._used += 1
                waiter.has_slot = True
            else:
                self._waiting.append(waiter)
                return waiter
        granted(waiter)
        return waiter

    def withdraw(self, waiter: Waiter) -> bool:
        """Ends the wait. Returns False if the waiter has a slot already, which the caller must give back."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            return not waiter.has_slot

    def withdraw_all(self) -> None:
        """Ends the wait of all waiters, and calls their ``granted`` without a slot."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for waiter in waiting:
            waiter.granted(waiter)

    def give_back(self) -> None:
        """Frees one slot, and grants that slot to the next waiter."""
        with self._lock:
            if not self._waiting:
                self._used -= 1
                if not self._used:
                    self._free.notify_all()
                return
            waiter = self._waiting.popleft()
            waiter.has_slot = True
        waiter.granted(waiter)

    def wait_until_unused(self, timeout: float) -> bool:
        """Waits until no slot is in use, ``timeout`` seconds at most. Returns whether none is in use."""
        with self._lock:
            return self._free.wait_for(lambda: not self._used, timeout)
