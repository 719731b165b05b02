"""Finds the replies to this client's requests by the value that they repeat."""

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
from connector.requests.settings import CORRELATION_ID

_log = logging.getLogger("connector.requests")

_MAX_DESTINATIONS: Final = 64
"""Most reply destinations that are kept while no reply is awaited there: callers may name any destination."""
_MAX_PATTERNS: Final = 8
"""Most sending connections whose replies are still taken. There are several only after failures."""


class OwnReplies:
    """The pollers for this client's replies: one for each reply destination, all with the same selector.

    The patterns and destinations outlive the connection, and any thread may read them. The pollers belong to
    the current connection and its thread.

    Args:
        field: field of a reply that identifies the request: JMSCorrelationID, or a property.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._lock = threading.Lock()
        self._patterns: deque[str] = deque(maxlen=_MAX_PATTERNS)
        self._destinations: dict[Destination, None] = {}
        self._stale = False
        self._selector = ""
        self._pollers: dict[Destination, Poller] = {}
        self._private: Poller | None = None

    def expect(self, pattern: str) -> None:
        """Marks replies that repeat a value of this LIKE pattern (escape ``\\``) as this client's."""
        if pattern not in self._patterns:
            with self._lock:
                if pattern not in self._patterns:
                    self._patterns.append(pattern)
                    self._stale = True

    def takes_from(self, destination: Destination) -> bool:
        """Whether replies are taken from ``destination``."""
        return destination in self._destinations

    def key(self, message: Message) -> str:
        """Returns the value that identifies the request of a reply."""
        if self._field == CORRELATION_ID:
            return key_of(message.correlation_id or "")
        return key_of(str(message.properties.get(self._field, "")))

    @property
    def pollers(self) -> Collection[Poller]:
        """The pollers of the current connection, for all destinations."""
        private = () if self._private is None else (self._private,)
        return (*private, *self._pollers.values())

    def take_all_from(self, connection: Connection, queue: Destination) -> None:
        """Takes every message of a temporary queue of this client.

        Raises:
            ProviderError: the provider failed.
        """
        self._private = connection.poller(queue)
        self._destinations[queue] = None

    def take_from(
        self, connection: Connection, destination: Destination, in_use: Callable[[], Collection[Destination]]
    ) -> Destination:
        """Takes replies from ``destination``, too. Closes unused pollers if there are too many.

        Raises:
            DestinationError, CapabilityError: this client cannot take from ``destination``.
            ProviderError: the provider failed.
        """
        self.refresh(connection)
        if len(self._pollers) >= _MAX_DESTINATIONS:
            kept = in_use()
            for unused in [found for found in self._pollers if found not in kept]:
                self._pollers.pop(unused).close()
                del self._destinations[unused]
        if destination not in self._pollers and self._selector:
            self._pollers[destination] = connection.poller(destination, selector=self._selector)
        self._destinations[destination] = None
        return destination

    def remove(self, destination: Destination) -> None:
        """Takes no more replies from ``destination``.

        Raises:
            ProviderError: ``destination`` is this client's own queue, and the connection needs that queue.
        """
        if self._private is not None and self._private.destination == destination:
            raise ProviderError(f"the temporary queue {destination} is gone")
        self._destinations.pop(destination, None)
        poller = self._pollers.pop(destination, None)
        if poller is not None:
            poller.close()

    def refresh(self, connection: Connection) -> None:
        """Makes the pollers anew if the expected patterns have changed.

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
            except ConnectorError as error:  # a temporary queue that has ended since
                if isinstance(error, ProviderError):
                    connection.check()
                _log.warning(
                    "no replies are taken from a destination any more",
                    extra={"destination": str(destination), "reason": str(error)},
                )
                del self._destinations[destination]

    def close(self) -> None:
        """Closes the pollers."""
        for poller in self.pollers:
            poller.close()
        self._pollers = {}
        self._private = None

    def reset(self) -> None:
        """Drops the pollers and the private queue of a failed connection."""
        if self._private is not None:
            del self._destinations[self._private.destination]
        self._private = None
        self._pollers = {}
        self._stale = True


def key_of(text: str) -> str:
    """Returns an id without a leading ``ID:``, which one side may lack, for comparing."""
    return text.removeprefix("ID:")
