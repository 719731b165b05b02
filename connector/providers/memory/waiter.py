"""Waiting for messages: whoever puts one into a channel tells those who take from it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from connector.providers.memory.clients import Client
from connector.providers.memory.memory import Memory


class MemoryWaiter:
    """See :class:`connector.messaging.provider.Waiter`.

    Args:
        memory, client: who waits.
    """

    def __init__(self, memory: Memory, client: Client) -> None:
        self._memory = memory
        self._client = client
        self._changed = threading.Condition(memory.lock)
        self._has_come = False
        self._woken = False

    def come(self, *, returned: bool) -> None:
        """A message waits for a poller; ``returned`` where this client itself has given it back."""
        with self._changed:
            self._has_come = self._has_come or not returned
            self._changed.notify_all()

    def begin(self) -> bool:
        """See :meth:`connector.messaging.provider.Waiter.begin`."""
        with self._memory:
            self._has_come = False
            return self._client.alive

    def wait(self, seconds: float) -> bool:
        """See :meth:`connector.messaging.provider.Waiter.wait`."""
        with self._memory:
            self.wait_for(lambda: self._has_come, seconds)
            return self._has_come or not self._client.alive

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        """Waits until a condition holds, :meth:`wake`, or the end of the client; ``seconds`` at most."""
        with self._memory:
            self._changed.wait_for(lambda: self._woken or not self._client.alive or condition(), seconds)
            self._woken = False

    def wake(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.wake`."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def end(self) -> None:
        """The client has ended."""
        with self._changed:
            self._changed.notify_all()
