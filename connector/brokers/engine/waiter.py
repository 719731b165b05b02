"""The waiter of a connection to a broker: one thread hears of the messages of all inputs.

That needs a client library that tells of them. Otherwise a thread for each input receives the next message.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Final

from connector.brokers.engine.news import ReceiverNews
from connector.brokers.engine.session import LendingSession
from connector.errors import ProviderError
from connector.messaging.polling import Waiter

_STOP: Final = -1
_LOOK_SECONDS: Final = 10.0
"""Seconds between two looks for messages that come again later."""


_DUE_PAUSE: Final = 0.05
"""Seconds before the same message is reported again."""
_HEAR_SECONDS: Final = 1.0
"""Seconds between two looks whether the connection has failed."""


class RemoteWaiter(Waiter):
    """Reports messages that sessions have, or receive.

    A thread receives only while :meth:`wait` runs. A received message belongs to the next claim of its
    session.

    Args:
        until_due: returns the seconds until a message comes again later.
    """

    def __init__(
        self,
        sessions: Callable[[], Iterable[LendingSession]],
        until_due: Callable[[], float],
        news: ReceiverNews,
    ) -> None:
        self._sessions = sessions
        self._until_due = until_due
        self._news = news
        self._numbers: set[int] = set()
        """The receivers of the sessions of which the client library tells."""
        self._hearing: threading.Thread | None = None
        self._is_waiting = threading.Event()
        self._threads: dict[LendingSession, SimpleQueue[int]] = {}
        self._wait_number = 0
        self._woken = threading.Event()
        self._is_woken = False
        """Whether :meth:`wake` was called."""
        self._has_arrived = False
        self._has_told = False
        """Whether the last wait ended because a message came again later."""
        self._is_closed = False

    def begin(self) -> bool:
        self._has_arrived = self._is_closed
        if not self._is_woken:
            self._woken.clear()  # of an earlier arrival
        with contextlib.suppress(ProviderError):  # the next claim raises the error
            self._news.take(0.0)
        return not self._is_closed

    def wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        if not self._woken.is_set() and not self._is_closed:
            self._wait_number += 1
            self._numbers = set()
            for session in self._sessions():
                if session.number:
                    self._numbers.add(session.number)
                    if self._news.must_look(session.number):
                        self._look(session)
                elif not session.claims:
                    self._thread(session).put(self._wait_number)
            self._hear()
            self._wait_until(deadline)
            self._is_waiting.clear()
            self._wait_number += 1
        self._woken.clear()
        self._is_woken = False
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

    def _hear(self) -> None:
        """Lets the thread tell of messages of :attr:`_numbers` during a wait."""
        self._report_news()
        if self._numbers and self._hearing is None:
            self._hearing = threading.Thread(target=self._run, name="hear", daemon=True)
            self._hearing.start()
        self._is_waiting.set()

    def _report_news(self) -> None:
        if self._news.are_for(self._numbers):
            self._report()

    def _look(self, session: LendingSession) -> None:
        try:
            session.listen(waits=False)
        except ProviderError:  # the next claim raises the error
            self._report()

    def _report(self) -> None:
        self._has_arrived = True
        self._woken.set()

    def _run(self) -> None:
        """Runs in a thread of its own."""
        try:
            while not self._is_closed:
                self._is_waiting.wait()
                self._news.take(_HEAR_SECONDS)
                self._report_news()
        except ProviderError:  # the next claim raises the error
            self._report()

    def wake(self) -> None:
        """Ends the current wait, or the next wait. For any thread."""
        self._is_woken = True
        self._woken.set()

    def close(self) -> None:
        """Ends the threads. Repeatable. Does not wait for them."""
        self._is_closed = self._has_arrived = self._is_woken = True
        self._wait_number += 1
        for numbers in self._threads.values():
            numbers.put(_STOP)
        self._threads.clear()
        self._is_waiting.set()
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
            self._report()
