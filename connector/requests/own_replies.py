"""The replies to this client's requests, told from all others by what they repeat."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from connector.errors import ConnectorError, ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection, Poller
from connector.requests.plan import CORRELATION_ID

_log = logging.getLogger("connector.requests")

_MOST: Final = 64
"""Reply destinations that replies are taken from when none is awaited there: callers may name any."""
_PATTERNS: Final = 8
"""Sending connections of which replies are still taken; more than one only after failures."""


class OwnReplies:
    """The pollers for this client's replies: one for each reply destination, all with one selector.

    What is expected and where it is taken from outlives the connection, and any thread may ask for it; the
    pollers are of the connection of the moment, and for whoever has that.

    Args:
        field: where replies repeat what tells a request: JMSCorrelationID, or a property.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._lock = threading.Lock()
        self._patterns: deque[str] = deque(maxlen=_PATTERNS)
        self._destinations: dict[Destination, None] = {}
        self._stale = False
        self._selector = ""
        self._pollers: dict[Destination, Poller] = {}
        self._private: Poller | None = None

    def expect(self, pattern: str) -> None:
        """Replies that repeat something of this LIKE pattern (escape ``\\``) are this client's."""
        if pattern not in self._patterns:
            with self._lock:
                if pattern not in self._patterns:
                    self._patterns.append(pattern)
                    self._stale = True

    def takes_from(self, destination: Destination) -> bool:
        """Whether replies are taken from there."""
        return destination in self._destinations

    def key(self, message: Message) -> str:
        """What tells the request that a reply answers."""
        if self._field == CORRELATION_ID:
            return key_of(message.correlation_id or "")
        return key_of(str(message.properties.get(self._field, "")))

    @property
    def pollers(self) -> Collection[Poller]:
        """Those of the connection, of every destination."""
        private = () if self._private is None else (self._private,)
        return (*private, *self._pollers.values())

    def take_all_from(self, connection: Connection, queue: Destination) -> None:
        """Takes all there is from a queue of this client, which ends with the connection.

        Raises:
            ProviderError: the provider failed.
        """
        self._private = connection.poller(queue)
        self._destinations[queue] = None

    def take_from(
        self, connection: Connection, destination: Destination, in_use: Callable[[], Collection[Destination]]
    ) -> Destination:
        """Takes from there, too; of very many destinations only from those in use.

        Raises:
            DestinationError, CapabilityError: nobody, or not this client, can take from there.
            ProviderError: the provider failed.
        """
        self.refresh(connection)
        if len(self._pollers) >= _MOST:
            kept = in_use()
            for unused in [found for found in self._pollers if found not in kept]:
                self._pollers.pop(unused).close()
                del self._destinations[unused]
        if destination not in self._pollers and self._selector:
            self._pollers[destination] = connection.poller(destination, selector=self._selector)
        self._destinations[destination] = None
        return destination

    def drop(self, destination: Destination) -> None:
        """Takes no more from there.

        Raises:
            ProviderError: it is this client's own queue, without which the connection is of no use.
        """
        if self._private is not None and self._private.destination == destination:
            raise ProviderError(f"the temporary queue {destination} is gone")
        self._destinations.pop(destination, None)
        poller = self._pollers.pop(destination, None)
        if poller is not None:
            poller.close()

    def refresh(self, connection: Connection) -> None:
        """Makes the pollers anew, where they are not those for what is expected now.

        Raises:
            ProviderError: the provider failed.
        """
        if not self._stale:
            return
        self._stale = False
        for poller in self._pollers.values():
            poller.close()
        self._pollers = {}
        alternatives = [f"{self._field} LIKE '{pattern}' ESCAPE '\\'" for pattern in tuple(self._patterns)]
        if not alternatives:
            return
        self._selector = " OR ".join(alternatives)
        private = None if self._private is None else self._private.destination
        for destination in [found for found in self._destinations if found != private]:
            try:
                self._pollers[destination] = connection.poller(destination, selector=self._selector)
            except ConnectorError as error:  # it was possible once: a temporary queue that has ended
                if isinstance(error, ProviderError):
                    connection.check()
                _log.warning(
                    "no replies are taken from a destination any more",
                    extra={"destination": str(destination), "reason": str(error)},
                )
                del self._destinations[destination]

    def close(self) -> None:
        """Ends the pollers."""
        for poller in self.pollers:
            poller.close()
        self._pollers = {}
        self._private = None

    def forget(self) -> None:
        """The connection has failed, and with it the queue is gone that was this client's alone."""
        if self._private is not None:
            del self._destinations[self._private.destination]
        self._private = None
        self._pollers = {}
        self._stale = True


def key_of(text: str) -> str:
    """What two ids are compared by: without a leading ``ID:``, which one side may lack."""
    return text.removeprefix("ID:")
