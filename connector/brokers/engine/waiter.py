"""The waiter of a connection to a broker: a thread for each input receives the next message."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Final

from connector.brokers.engine.session import LendingSession
from connector.errors import ProviderError
from connector.messaging.polling import Waiter

_STOP: Final = -1
_LOOK_SECONDS: Final = 10.0
"""Seconds between two looks for messages that come again later."""


_DUE_PAUSE: Final = 0.05
"""Seconds before the same message is reported again."""


class RemoteWaiter(Waiter):
    """Reports messages that sessions receive.

    A thread receives only while :meth:`wait` runs. A received message belongs to the next claim of its
    session.

    Args:
        sessions: returns the sessions that receive.
        until_due: returns the seconds until a message comes again later.
    """

    def __init__(
        self, sessions: Callable[[], Iterable[LendingSession]], until_due: Callable[[], float]
    ) -> None:
        self._sessions = sessions
        self._until_due = until_due
        self._threads: dict[LendingSession, SimpleQueue[int]] = {}
        self._wait_number = 0
        self._woken = threading.Event()
        self._has_arrived = False
        self._has_told = False
        """Whether the last wait ended because a message came again later."""
        self._is_closed = False

    def begin(self) -> bool:
        self._has_arrived = self._is_closed
        return not self._is_closed

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        if not self._woken.is_set() and not self._is_closed:
            self._wait_number += 1
            for session in self._sessions():
                if not session.claims:
                    self._thread(session).put(self._wait_number)
            self._wait_until(deadline)
            self._wait_number += 1
        self._woken.clear()
        return self._has_arrived

    def _wait_until(self, deadline: float) -> None:
        """Waits until a thread has received, somebody wakes the wait, or a message comes again later."""
        while (left := deadline - time.monotonic()) > 0:
            try:
                due = self._until_due()
            except ProviderError:  # the next claim raises the error
                due = 0.0
            if not due:
                if self._has_told:  # the poll could not take it
                    self._woken.wait(min(left, _DUE_PAUSE))
                self._has_told = self._has_arrived = True
                return
            self._has_told = False
            if self._woken.wait(min(left, due, _LOOK_SECONDS)):
                return

    def wake(self) -> None:
        """Ends the current wait, or the next wait. For any thread."""
        self._woken.set()

    def close(self) -> None:
        """Ends the threads. Repeatable. Does not wait for them."""
        self._is_closed = self._has_arrived = True
        self._wait_number += 1
        for numbers in self._threads.values():
            numbers.put(_STOP)
        self._threads.clear()
        self._woken.set()

    def _thread(self, session: LendingSession) -> SimpleQueue[int]:
        numbers = self._threads.get(session)
        if numbers is None:
            numbers = self._threads[session] = SimpleQueue()
            name = f"receive-{session.destination.name}"
            threading.Thread(target=self._receive, args=(session, numbers), name=name, daemon=True).start()
        return numbers

    def _receive(self, session: LendingSession, numbers: SimpleQueue[int]) -> None:
        """Runs in a thread of its own."""
        while (number := numbers.get()) != _STOP:
            with contextlib.suppress(ProviderError):  # the next claim raises the error
                while number == self._wait_number:
                    if session.listen():
                        break
                else:
                    continue
            self._has_arrived = True
            self._woken.set()
