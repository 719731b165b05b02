"""The keys of ``order`` whose first event comes again later. The events behind the first one wait, too."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Hashable, Iterable

from connector.errors import UnknownDestination
from connector.events.order_groups import DESTINATION, NONE, order_group_key
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection


class OrderWaits:
    """Knows until when each key waits. For one thread.

    Args:
        order: ``destination``, ``group`` or ``none``. Nothing waits without an order.
        clock: returns seconds since 1970.
    """

    def __init__(self, order: str, clock: Callable[[], float] = time.time) -> None:
        self._order = order
        self._clock = clock
        self._until: dict[Hashable, int] = {}
        """Milliseconds since 1970, by key."""

    def read(self, connection: Connection, inputs: Iterable[Destination]) -> None:
        """Finds the keys of the events that wait in the inputs, whichever client has left them there.

        Raises:
            ProviderError: an input cannot be read.
        """
        for destination in inputs if self._order != NONE else ():
            with contextlib.suppress(UnknownDestination):
                for message in connection.browse(destination, delayed=True):
                    if "connector_retries" in message.properties:
                        self._note(self._key_of(destination, message), message.delivery_time)

    def add(self, claim: Claim, due: int) -> None:
        """Lets the key of an event wait until its time, in milliseconds since 1970."""
        self._note(order_group_key(self._order, claim), due)

    def due_of(self, claim: Claim) -> int:
        """Returns until when an event has to wait for an earlier event of its key. 0 = it need not wait.

        An event that has waited itself need not wait again: the clock of the store decides when it is due.
        """
        if not self._until or "connector_retries" in claim.headers().properties:
            return 0
        return self._due(order_group_key(self._order, claim))

    def has(self, destination: Destination) -> bool:
        """Whether all events of an input have to wait."""
        return bool(self._until) and self._order == DESTINATION and self._due(destination) > 0

    def _note(self, key: Hashable, due: int) -> None:
        if key is not None:
            self._until[key] = max(due, self._until.get(key, 0))

    def _due(self, key: Hashable) -> int:
        due = self._until.get(key, 0)
        if due and due <= self._clock() * 1000:
            del self._until[key]
            return 0
        return due

    def _key_of(self, destination: Destination, message: Message) -> Hashable:
        if self._order == DESTINATION:
            return destination
        return None if message.group_id is None else (destination, message.group_id)
