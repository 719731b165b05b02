"""The watch of a client (see :class:`connector.stores.engine.store.Watch`)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from connector.stores.engine.store import Watch


class MemoryWatch(Watch):
    """Waits for messages. The readers of the client notify it that a message has come."""

    can_tell = True

    def __init__(self, client_id: str, lock: threading.RLock) -> None:
        self.client_id = client_id
        self.changed = threading.Condition(lock)
        self.has_come = self.woken = self.ended = False

    def notify(self, *, returned: bool) -> None:
        """Notes that a message waits for a reader. ``returned`` = this client has given the message back."""
        with self.changed:
            self.has_come = self.has_come or not returned
            self.changed.notify_all()

    def begin(self) -> bool:
        with self.changed:
            self.has_come = False
            return not self.ended

    def wait(self, seconds: float) -> bool:
        with self.changed:
            self.wait_for_news(lambda: self.has_come, seconds)
            return self.has_come or self.ended

    def wait_for_news(self, has_news: Callable[[], bool], seconds: float) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.woken or self.ended or has_news(), seconds)
            self.woken = False

    def wake(self) -> None:
        with self.changed:
            self.woken = True
            self.changed.notify_all()

    def close(self) -> None:
        with self.changed:
            self.ended = True
            self.changed.notify_all()
