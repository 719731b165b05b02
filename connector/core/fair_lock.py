"""A lock that threads get in the order of asking."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from threading import get_ident
from typing import Final


class FairLock:
    """A reentrant lock that goes to the thread that has waited longest.

    A plain lock mostly goes back to the thread that has released it. So a loop that holds a plain lock nearly
    all the time keeps the other threads out.
    """

    __slots__ = ("_again", "_lock", "_owner", "_waiting")

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._owner = 0
        self._again = 0
        """How often the owner has taken the lock again."""
        self._waiting: Final[deque[threading.Lock]] = deque()
        """A lock for each waiting thread, on which that thread sleeps."""

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds the lock."""
        return self._owner == get_ident()

    def try_acquire(self) -> bool:
        """Takes the lock if no thread holds or awaits the lock. Returns whether this thread holds it."""
        me = get_ident()
        if self._owner == me:
            self._again += 1
            return True
        if self._waiting or not self._lock.acquire(False):
            return False
        self._owner = me
        return True

    def __enter__(self) -> None:
        me = get_ident()
        if self._owner == me:
            self._again += 1
            return
        if self._waiting or not self._lock.acquire(False):
            self._wait()
        self._owner = me

    def __exit__(self, *_: object) -> None:
        """Releases the lock, once for each time that this thread has taken it."""
        if self._again:
            self._again -= 1
            return
        self._owner = 0
        self._lock.release()
        if self._waiting:
            self._wake()

    release = __exit__

    def _wait(self) -> None:
        sleeping = threading.Lock()
        sleeping.acquire()
        self._waiting.append(sleeping)
        try:
            while self._waiting[0] is not sleeping or not self._lock.acquire(False):
                sleeping.acquire()
        except BaseException:  # interrupted (Ctrl-C), perhaps at the turn of this thread
            self._waiting.remove(sleeping)
            self._wake()
            raise
        self._waiting.popleft()

    def _wake(self) -> None:
        """Lets the first waiting thread try again."""
        with contextlib.suppress(IndexError, RuntimeError):  # no thread waits, or the thread is awake
            self._waiting[0].release()
