"""Browses queues, on connections of their own."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from connector.brokers.engine.broker import Received
from connector.brokers.engine.silence import ANSWER, FIRST_ANSWER, BrokerSilent
from connector.brokers.jms.names import java_destination
from connector.brokers.jms.reasons import is_unanswered, reason_of
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message

_log: Final = logging.getLogger("connector.jms")
_LIMIT: Final = 1 << 31
_MOST_FAILURES: Final = 1000
"""Messages in a row that the client library cannot read. More of them are no messages."""


class JmsBrowsers:
    """The browsers of a connection.

    A browser has to ask the broker whether a queue has more messages. Without an answer, a patient browser
    asks again: it waits longer, and has fewer messages under way. Qpid JMS has such settings for a connection
    only, so browsers have connections of their own.

    Args:
        connect: opens a connection, a :class:`~connector.brokers.jms.client.JmsConnection`, for browsers that
            wait for some seconds.
    """

    def __init__(self, connect: Callable[[float], Any]) -> None:
        self._connect = connect
        self._connections: dict[float, Any] = {}
        """By the seconds of an answer."""
        self._seconds = FIRST_ANSWER
        self._lock = threading.Lock()

    def browse(
        self, queue: Destination, selector: str, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        """Yields the waiting messages of a queue, and takes none."""
        seconds = self._seconds
        try:
            browser = self._open(queue, selector, seconds)
        except ProviderError as error:
            if seconds == ANSWER or not _needs_patience(error):
                raise
            browser = self._open_patiently(queue, selector)
        return self._browse(browser, queue, selector, unreadable or _ignore)

    def _open(self, queue: Destination, selector: str, seconds: float) -> _Browser:
        with self._lock:
            connection = self._connections.get(seconds)
            if connection is None or connection.failure is not None:
                connection = self._connections[seconds] = self._connect(seconds)
        return _Browser(connection, queue, selector, seconds)

    def _open_patiently(self, queue: Destination, selector: str) -> _Browser:
        self._seconds = ANSWER
        return self._open(queue, selector, ANSWER)

    def _browse(
        self, browser: _Browser, queue: Destination, selector: str, tell: Callable[[Message, str], object]
    ) -> Iterator[Message]:
        failures = 0
        seen: Counter[str | None] = Counter()
        again: Counter[str | None] = Counter()
        """Messages that another browser has shown."""
        try:
            while look := browser.look:
                if isinstance(look, str):
                    failures += 1
                    if failures > _MOST_FAILURES:
                        raise ProviderError(f"{queue} cannot be browsed: {look}")
                    tell(Message(destination=str(queue)), look)
                else:
                    failures = 0
                    received = browser.read()
                    message = received.message
                    seen[message.message_id] += 1
                    if seen[message.message_id] > again[message.message_id]:
                        message.destination = str(queue)
                        if received.unreadable:
                            tell(message, received.unreadable)
                        yield message
                try:
                    browser.go_on()
                except ProviderError as error:
                    if browser.seconds == ANSWER or not _needs_patience(error):
                        raise
                    browser.end()
                    browser = self._open_patiently(queue, selector)
                    again, seen = seen, Counter()
            if browser.slowest < FIRST_ANSWER:
                self._seconds = FIRST_ANSWER
        finally:
            browser.end()

    def close(self) -> None:
        """Ends the connections. Repeatable, never raises."""
        with self._lock:
            connections, self._connections = self._connections, {}
        for connection in connections.values():
            try:
                connection.close()
            except ProviderError as error:
                _log.debug("closing failed", extra={"reason": str(error)})


class _Browser:
    """A browser in Java.

    Args:
        selector: text. Empty = all messages.
        seconds: until the broker has to answer.
    """

    look: bool | str
    """Whether there is another message, or else why the client library cannot read the next one."""

    def __init__(self, connection: Any, queue: Destination, selector: str, seconds: float) -> None:
        self._connection = connection
        self._queue = queue
        self.seconds = seconds
        self.slowest = 0.0
        """Seconds of the slowest answer."""
        self._session = connection.plain_session()
        try:
            with self._errors():
                java = connection.destinations.find(queue) or java_destination(self._session, queue)
                browser = self._session.createBrowser(java, selector or None)
                with connection.making:
                    self._found = browser.getEnumeration()
            self.go_on()
        except BaseException:
            self.end()
            raise

    def _errors(self) -> AbstractContextManager[None]:
        errors: AbstractContextManager[None] = self._connection.errors(f"{self._queue} cannot be browsed")
        return errors

    def read(self) -> Received:
        """Returns the next message."""
        with self._errors():
            received: Received = self._connection.reader.read(self._found.nextElement(), _LIMIT)
        return received

    def go_on(self) -> None:
        """Looks for the next message.

        Raises:
            BrokerSilent: the broker does not tell.
        """
        began = time.monotonic()
        with self._errors():
            self.look = self._look()
        seconds = time.monotonic() - began
        self.slowest = max(self.slowest, seconds)
        if not self.look and seconds >= self.seconds:
            raise BrokerSilent(f"the messages of {self._queue} are not known")

    def _look(self) -> bool | str:
        connection = self._connection
        try:
            if self._found.hasMoreElements():
                return True
            # Qpid JMS says no, too, if the connection has ended, or if the broker has not answered.
            connection.java.getClientID()  # raises an error if it has ended
        except connection.jpype.JException as error:
            is_unknown = isinstance(error, connection.jms.InvalidDestinationException)
            if is_unknown or connection.failure is not None or is_unanswered(error):
                raise
            return reason_of(error)
        return False

    def end(self) -> None:
        """Ends the browser. Repeatable, never raises."""
        try:
            self._session.close()
        except Exception as error:
            _log.debug("closing failed", extra={"reason": str(error)})


def _needs_patience(error: ProviderError) -> bool:
    """Whether nobody has answered, or too much has come."""
    return isinstance(error, BrokerSilent) or "Java heap space" in str(error)


def _ignore(message: Message, reason: str) -> None:
    """Goes on with the next message."""
