"""The thread of a session that calls the listeners, one after the other (JMS 2.0, 8.7)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from connector.core.consumer import SessionConsumer
from connector.core.fair_lock import FairLock
from connector.core.inbox import Inbox
from connector.core.ledger import Delivery
from connector.core.receiver import Reference

_SLICE: Final = 0.05
_LONGEST_BACK_OFF: Final = 1.0


class Dispatcher:
    """Gives each listener one message in turn, until the session ends.

    Args:
        lock: of the session. Held while a listener runs.
        acknowledge: acknowledges a delivery for ``acknowledge()`` of its message.
        report: called with each exception.
    """

    def __init__(
        self,
        inbox: Inbox,
        lock: FairLock,
        acknowledge: Callable[[Delivery], None],
        report: Callable[[Exception], None],
    ) -> None:
        self._inbox = inbox
        self._lock = lock
        self._acknowledge = acknowledge
        self._report = report
        self._failures = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="connector-listeners", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Calls no listener any more after the running listener has returned."""
        self._ending.set()

    def join(self) -> None:
        """Waits until the last listener has returned."""
        self._thread.join()

    def is_current(self) -> bool:
        """Whether the caller is a listener."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while not self._ending.is_set():
            with self._lock:
                failed = self._round()
            if failed:
                self._back_off()

    def _round(self) -> bool:
        """Delivers one message to each listener, or waits. Returns whether an error happened."""
        busy = failed = False
        for consumer in self._inbox.listening():
            if self._ending.is_set():
                break
            try:
                busy = self._deliver(consumer) or busy
            except Exception as error:
                failed = True
                self._report(error)
        if busy or failed or self._ending.is_set():
            return failed
        try:
            self._inbox.wait(_SLICE)
        except Exception as error:
            self._report(error)
            return True
        return False

    def _deliver(self, consumer: SessionConsumer) -> bool:
        if consumer.receiver is None:
            return False  # another listener has removed this one meanwhile
        taken = self._inbox.take(consumer)
        if taken is None:
            return False
        delivery, message = taken
        acknowledge = partial(self._acknowledge, delivery)
        reference = Reference(message, lambda: message, message.delivery_count, acknowledge)
        self._inbox.deliver(consumer.receiver, delivery, reference)
        self._failures = 0
        return True

    def _back_off(self) -> None:
        """Waits longer after each failure in a row, so that a repeated failure does not burn a core."""
        self._failures = min(self._failures + 1, 16)
        self._ending.wait(min(0.001 * 2**self._failures, _LONGEST_BACK_OFF))
