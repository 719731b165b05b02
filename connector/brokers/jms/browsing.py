"""Browses queues, on a connection of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from connector.brokers.engine.broker import Received
from connector.brokers.engine.silence import ANSWER, BrokerSilent
from connector.brokers.jms.names import java_destination
from connector.brokers.jms.reasons import is_unanswered, reason_of
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message

_log: Final = logging.getLogger("connector.jms")
_LIMIT: Final = 1 << 31
_MOST_FAILURES: Final = 1000
"""Messages in a row that the client library cannot read. More of them are no messages."""


class Browsing:
    """The browsers of a connection.

    A browser has to ask the broker whether a queue has more messages. A consumer looks only at what it has
    fetched (:func:`connector.brokers.jms.urls.with_options`). Qpid JMS has one setting for both, so
    browsers have a connection without that setting.

    Args:
        connect: opens the connection, a :class:`~connector.brokers.jms.client.JmsConnection`.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._lock = threading.Lock()

    def browse(
        self, queue: Destination, selector: str, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        """Yields the waiting messages of a queue, and takes none."""
        connection = self._working_connection()
        session = connection.plain_session()
        try:
            with connection.errors(f"{queue} cannot be browsed"):
                java = connection.destinations.find(queue) or java_destination(session, queue)
                browser = session.createBrowser(java, selector or None)
                with connection.making:
                    found = browser.getEnumeration()
                first = self._look(connection, queue, found)
        except BaseException:
            self._end(session)
            raise
        return self._browse(connection, queue, session, (first, found), unreadable)

    def _working_connection(self) -> Any:
        with self._lock:
            if self._connection is None or self._connection.failure is not None:
                self._connection = self._connect()
            return self._connection

    def _browse(
        self,
        connection: Any,
        queue: Destination,
        session: Any,
        looks: tuple[bool | str, Any],
        unreadable: Callable[[Message, str], object] | None,
    ) -> Iterator[Message]:
        look, found = looks
        tell = unreadable or _ignore
        failures = 0
        try:
            while look:
                if isinstance(look, str):
                    failures += 1
                    if failures > _MOST_FAILURES:
                        raise ProviderError(f"{queue} cannot be browsed: {look}")
                    tell(Message(destination=str(queue)), look)
                else:
                    failures = 0
                    with connection.errors(f"{queue} cannot be browsed"):
                        received: Received = connection.reader.read(found.nextElement(), _LIMIT)
                    received.message.destination = str(queue)
                    if received.unreadable:
                        tell(received.message, received.unreadable)
                    yield received.message
                with connection.errors(f"{queue} cannot be browsed"):
                    look = self._look(connection, queue, found)
        finally:
            self._end(session)

    @staticmethod
    def _look(connection: Any, queue: Destination, found: Any) -> bool | str:
        """Whether there is another message, or else why the client library cannot read the next one.

        Raises:
            BrokerSilent: the broker does not tell.
        """
        began = time.monotonic()
        try:
            if found.hasMoreElements():
                return True
            # Qpid JMS says no, too, if the connection has ended, or if the broker has not answered.
            connection.java.getClientID()  # raises an error if it has ended
        except connection.jpype.JException as error:
            is_unknown = isinstance(error, connection.jms.InvalidDestinationException)
            if is_unknown or connection.failure is not None or is_unanswered(error):
                raise
            return reason_of(error)
        if time.monotonic() - began >= ANSWER:
            raise BrokerSilent(f"the messages of {queue} are not known")
        return False

    @staticmethod
    def _end(session: Any) -> None:
        try:
            session.close()
        except Exception as error:
            _log.debug("closing failed", extra={"reason": str(error)})

    def close(self) -> None:
        """Ends the connection. Repeatable, never raises."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except ProviderError as error:
                _log.debug("closing failed", extra={"reason": str(error)})


def _ignore(message: Message, reason: str) -> None:
    """Goes on with the next message."""
