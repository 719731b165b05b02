"""The messages that a JMS client library pushes to the consumers of a session."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from connector.brokers.engine.broker import BrokerArrivals, Received
from connector.brokers.jms.listeners import queue_listener
from connector.errors import ProviderError
from connector.messaging.destination import Destination

_WAKE: Final = 0


class JmsArrivals(BrokerArrivals):
    """Collects messages in Java: a thread of Java never enters Python.

    Args:
        make: makes a consumer of a queue with a selector, whose messages go to a listener.
        failure: returns why the connection has failed, or None.
    """

    def __init__(
        self,
        jpype: Any,
        jms: Any,
        make: Callable[[Destination, str, Any], Any],
        read: Callable[[Any], Received],
        failure: Callable[[], str | None],
    ) -> None:
        self._jpype = jpype
        self._listener = jms.MessageListener
        self._make = make
        self._read = read
        self._failure = failure
        self._numbers = itertools.count(_WAKE + 1)
        self._consumers: dict[int, Any] = {}
        self._milliseconds = jpype.JClass("java.util.concurrent.TimeUnit").MILLISECONDS
        self._queue = jpype.JClass("java.util.concurrent.LinkedBlockingQueue")()
        self._list = jpype.JClass("java.util.ArrayList")
        self._wake = jpype.JClass("java.util.AbstractMap$SimpleEntry")(_WAKE, None)

    def add(self, queue: Destination, selector: str) -> int:
        number = next(self._numbers)
        listener = queue_listener(self._jpype, self._listener, self._queue, number)
        self._consumers[number] = self._make(queue, selector, listener)
        return number

    def remove(self, number: int) -> None:
        consumer = self._consumers.pop(number, None)
        if consumer is not None:
            try:
                consumer.close()
            except self._jpype.JException:
                pass  # it has ended with its queue or its connection

    def take(self, seconds: float, most: int) -> list[tuple[int, Received]] | None:
        found = self._list()
        if not self._queue.drainTo(found, most) and seconds > 0:
            first = self._queue.poll(max(1, int(seconds * 1000)), self._milliseconds)
            if first is not None:
                found.add(first)
                self._queue.drainTo(found, most - 1)
        taken = [
            (number, self._read(entry.getValue()[0])) for entry in found if (number := int(entry.getKey()))
        ]
        if not taken and (failure := self._failure()) is not None:
            raise ProviderError(failure)
        return taken if taken or found.isEmpty() else None

    def wake(self) -> None:
        self._queue.offer(self._wake)
