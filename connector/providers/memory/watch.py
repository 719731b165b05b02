"""Waiting for messages: whoever puts one into a channel tells those who take from it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class MemoryWatch:
    """See :class:`connector.core.local.store.Watch`.

    Args:
        lock: of the provider.
    """

    can_tell = True

    def __init__(self, lock: threading.RLock) -> None:
        self._changed = threading.Condition(lock)
        self._has_come = False
        self._woken = False
        self._ended = False

    def come(self, *, returned: bool) -> None:
        """A message waits for a reader; ``returned`` where this client itself has given it back."""
        with self._changed:
            self._has_come = self._has_come or not returned
            self._changed.notify_all()

    def begin(self) -> bool:
        """See :meth:`connector.messaging.provider.Waiter.begin`."""
        with self._changed:
            self._has_come = False
            return not self._ended

    def wait(self, seconds: float) -> bool:
        """See :meth:`connector.messaging.provider.Waiter.wait`."""
        with self._changed:
            self.pause(lambda: self._has_come, seconds)
            return self._has_come or self._ended

    def pause(self, has_news: Callable[[], bool], seconds: float) -> None:
        """See :meth:`connector.core.local.store.Watch.pause`."""
        with self._changed:
            self._changed.wait_for(lambda: self._woken or self._ended or has_news(), seconds)
            self._woken = False

    def wake(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.wake`."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def end(self) -> None:
        """See :meth:`connector.core.local.store.Watch.end`."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
