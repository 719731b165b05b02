"""The thread of a session that calls its listeners, one after the other (JMS 2.0, 8.7)."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

from connector.core.consumer import SessionConsumer
from connector.core.ledger import Delivery
from connector.core.turn import Turn
from connector.messaging.client import ReceivedMessage

_SLICE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class Dispatching(Protocol):
    """What the thread needs of its session; called with the session's turn."""

    @property
    def closing(self) -> bool: ...

    def listening(self) -> list[SessionConsumer]: ...

    def take(self, consumer: SessionConsumer) -> tuple[Delivery, ReceivedMessage] | None: ...

    def listened(self, delivery: Delivery) -> None: ...

    def refused(self, delivery: Delivery) -> None: ...

    def report(self, error: Exception) -> None: ...

    def idle(self, seconds: float) -> None: ...


class Dispatcher:
    """Gives each listener one message in turn, until the session closes."""

    def __init__(self, session: Dispatching, turn: Turn) -> None:
        self._session = session
        self._turn = turn
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="connector-listeners", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        """Waits until the last listener has returned."""
        self._thread.join()

    def is_current(self) -> bool:
        """Whether a listener asks."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while not self._session.closing:
            with self._turn:
                failed = self._round()
            if failed:
                self._pause()
            self._turn.give_way()

    def _round(self) -> bool:
        """One message for each listener, or a wait; True when something went wrong."""
        busy = failed = False
        for consumer in self._session.listening():
            if self._session.closing:
                return False
            try:
                taken = self._session.take(consumer)
                if taken is None:
                    continue
                busy = True
                self._call(consumer, *taken)
                self._failures = 0
            except Exception as error:
                failed = True
                self._session.report(error)
        if not busy and not failed:
            try:
                self._session.idle(_SLICE)
            except Exception as error:
                self._session.report(error)
                return True
        return failed

    def _call(self, consumer: SessionConsumer, delivery: Delivery, message: ReceivedMessage) -> None:
        assert consumer.listener is not None
        try:
            consumer.listener(message)
        except BaseException:
            self._session.refused(delivery)
            raise
        self._session.listened(delivery)

    def _pause(self) -> None:
        """After failures in a row, longer and longer: what comes again at once must not burn a core."""
        self._failures += 1
        end = time.monotonic() + min(0.001 * 2**self._failures, _LONGEST_PAUSE)
        while not self._session.closing and time.monotonic() < end:
            time.sleep(min(_SLICE, max(0.0, end - time.monotonic())))
