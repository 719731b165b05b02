"""How many requests are in flight at a time; the others wait their turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Waiter:
    """One that waits for a slot.

    Args:
        granted: called with it, in any thread, when it has a slot, or when nobody gets one any more.
    """

    __slots__ = ("granted", "has_slot")

    def __init__(self, granted: Callable[[Waiter], object]) -> None:
        self.granted = granted
        self.has_slot = False


class Slots:
    """``size`` slots, first come first served. Thread-safe.

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
        """How many wait for one."""
        return len(self._waiting)

    def try_take(self) -> bool:
        """A slot at once, or not at all."""
        with self._lock:
            free = self._used < self._size and not self._waiting
            self._used += free
            return free

    def queue(self, granted: Callable[[Waiter], object]) -> Waiter:
        """A slot when it is this waiter's turn, maybe at once: then, and only then, ``granted`` is called."""
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
        """Waits no more; False where it has a slot already, which has to be given back."""
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            return not waiter.has_slot

    def withdraw_all(self) -> None:
        """Nobody waits any more; each is told so."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for waiter in waiting:
            waiter.granted(waiter)

    def give_back(self) -> None:
        """One slot is free: the next that waits has it."""
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
        """Waits until no slot is in use, ``timeout`` seconds at most; whether that is so."""
        with self._lock:
            return self._free.wait_for(lambda: not self._used, timeout)
