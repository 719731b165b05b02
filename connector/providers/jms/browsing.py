"""Browses queues, on a connection of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message

_log: Final = logging.getLogger("connector.jms")
_LIMIT: Final = 1 << 31


class Browsing:
    """The browsers of a connection.

    A browser has to ask the broker whether a queue has more messages. A consumer looks only at what it has
    fetched (:func:`connector.providers.jms.urls.with_options`). Qpid JMS has one setting for both, so
    browsers have a connection without that setting.

    Args:
        connect: opens the connection, a :class:`~connector.providers.jms.client.JmsConnection`.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._connection: Any = None
        self._lock = threading.Lock()

    def browse(self, queue: Destination, selector: str) -> Iterator[Message]:
        """See :meth:`connector.core.remote.broker.BrokerConnection.browse`."""
        connection = self._connected()
        session = connection.plain_session()
        try:
            with connection.errors(f"{queue} cannot be browsed"):
                browser = session.createBrowser(session.createQueue(queue.name), selector or None)
                found = browser.getEnumeration()
                has_more = self._has_more(found)
        except BaseException:
            self._end(session)
            raise
        return self._browse(connection, queue, session, found, has_more)

    def _connected(self) -> Any:
        with self._lock:
            if self._connection is None or self._connection.failure is not None:
                self._connection = self._connect()
            return self._connection

    def _browse(
        self, connection: Any, queue: Destination, session: Any, found: Any, has_more: bool
    ) -> Iterator[Message]:
        try:
            while has_more:
                with connection.errors(f"{queue} cannot be browsed"):
                    message: Message = connection.reader.read(found.nextElement(), _LIMIT).message
                    has_more = self._has_more(found)
                message.destination = str(queue)
                yield message
        finally:
            self._end(session)

    @staticmethod
    def _has_more(found: Any) -> bool:
        try:
            return bool(found.hasMoreElements())
        except Exception as error:
            # The broker has sent nothing for the whole time-out of a drain, and did not say that it is done.
            if type(error).__name__.endswith("OperationTimedOutException"):
                return False
            raise

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
