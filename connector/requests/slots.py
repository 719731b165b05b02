"""Limits the number of requests in flight. Further requests wait in a queue."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class SlotRequest:
    """A request that waits for a slot.

    Args:
        granted: called with this request, in any thread, when the request gets a slot or when the slots are
            closed.
    """

    __slots__ = ("granted", "has_slot")

    def __init__(self, granted: Callable[[SlotRequest], object]) -> None:
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
        self._waiting: deque[SlotRequest] = deque()

    @property
    def used(self) -> int:
        """Slots in use."""
        return self._used

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return len(self._waiting)

    def try_take(self) -> bool:
        """Takes a slot if one is free. Returns whether a slot was taken."""
        with self._lock:
            free = self._used < self._size and not self._waiting
            self._used += free
            return free

    def queue(self, granted: Callable[[SlotRequest], object]) -> SlotRequest:
        """Queues for a slot. Calls ``granted``, maybe at once, when this request gets a slot."""
        slot_request = SlotRequest(granted)
        with self._lock:
            if self._used < self._size and not self._waiting:
                self._used += 1
                slot_request.has_slot = True
            else:
                self._waiting.append(slot_request)
                return slot_request
        granted(slot_request)
        return slot_request

    def cancel(self, slot_request: SlotRequest) -> bool:
        """Ends the wait. Returns False if the request has a slot already, which the caller must release."""
        with self._lock:
            if slot_request in self._waiting:
                self._waiting.remove(slot_request)
            return not slot_request.has_slot

    def cancel_all(self) -> None:
        """Ends the wait of all requests, and calls their ``granted`` without a slot."""
        with self._lock:
            waiting = list(self._waiting)
            self._waiting.clear()
        for slot_request in waiting:
            slot_request.granted(slot_request)

    def release(self) -> None:
        """Frees one slot, and grants that slot to the next request."""
        with self._lock:
            if not self._waiting:
                self._used -= 1
                if not self._used:
                    self._free.notify_all()
                return
            slot_request = self._waiting.popleft()
            slot_request.has_slot = True
        slot_request.granted(slot_request)

    def wait_until_unused(self, timeout: float) -> bool:
        """Waits until no slot is in use, ``timeout`` seconds at most. Returns whether none is in use."""
        with self._lock:
            return self._free.wait_for(lambda: not self._used, timeout)
