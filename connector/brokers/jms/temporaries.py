"""Temporary destinations: why their Java objects are kept."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from connector.brokers.engine.broker import EndedDestination
from connector.messaging.destination import Destination

_MOST_FOREIGN: Final = 10_000
"""Most temporary destinations of other clients that are remembered, those of the latest messages."""


class Temporaries:
    """The Java objects of temporary destinations, by name.

    A client library may receive from a temporary destination only by the object that it has made. A broker
    may make a queue of the name of a temporary queue that is gone, unless the object says that it is
    temporary.

    Args:
        jms: the Java package ``jakarta.jms`` or ``javax.jms``.
    """

    def __init__(self, jms: Any) -> None:
        self._kinds = jms.TemporaryQueue, jms.TemporaryTopic
        self.own: dict[Destination, Any] = {}
        """Those of this connection."""
        self._foreign: OrderedDict[Destination, Any] = OrderedDict()
        self._ended: set[Destination] = set()

    def end(self, destination: Destination) -> None:
        """Notes that a destination of this connection has ended."""
        del self.own[destination]
        self._foreign.pop(destination, None)
        self._ended.add(destination)

    def get(self, destination: Destination) -> Any:
        """Returns the object of a temporary destination. None = no temporary destination is known.

        Raises:
            EndedDestination: the destination was a temporary one of this connection, and has ended.
        """
        if destination in self._ended:
            raise EndedDestination(f"the temporary destination {destination} has ended")
        return self.own.get(destination) or self._foreign.get(destination)

    def is_foreign(self, destination: Destination) -> bool:
        """Whether the destination is a temporary one of another client."""
        return destination in self._foreign and destination not in self.own

    def note(self, destination: Destination, java: Any) -> None:
        """Notes the object of a received message, if the destination is temporary."""
        if isinstance(java, self._kinds):
            self._foreign[destination] = java
            self._foreign.move_to_end(destination)
            if len(self._foreign) > _MOST_FOREIGN:
                self._foreign.popitem(last=False)
