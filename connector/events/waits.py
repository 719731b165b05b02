"""Events that wait for an event that comes again later: those behind it in ``order``, and its copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from connector.events.order_groups import DESTINATION, NONE, order_group_key
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller


class EventWaits:
    """Knows until when each key and each id waits. For one thread.

    Args:
        order: ``destination``, ``group`` or ``none``.
        has_ids: whether duplicates are eliminated, so that copies wait.
        clock: returns seconds since 1970.
    """

    def __init__(self, order: str, *, has_ids: bool, clock: Callable[[], float] = time.time) -> None:
        self._order = order
        self._has_ids = has_ids
        self._clock = clock
        self._has_waits = False
        self._until: dict[Hashable, int] = {}
        """Milliseconds since 1970, by key of ``order``, and by duplicate key."""

    def read(self, poller: Poller) -> None:
        """Finds the keys and ids of the events that wait in an input, whichever client has left them there.

        Raises:
            ProviderError: the input cannot be read.
        """
        if self._order == NONE and not self._has_ids:
            return
        for message, identity in poller.delayed():
            if "connector_retries" in message.properties:
                self._note(self._key_of(poller.destination, message), message.delivery_time)
                self._note(identity if self._has_ids else None, message.delivery_time)

    def add(self, claim: Claim, due: int) -> None:
        """Lets the key and the id of an event wait until its time.

        Args:
            claim: of the event.
            due: its time, in milliseconds since 1970.
        """
        self._note(order_group_key(self._order, claim), due)
        self._note(claim.duplicate_key if self._has_ids else None, due)

    def due_of(self, claim: Claim, identity: str | None) -> int:
        """Returns until when an event has to wait for another event. 0 = it need not wait.

        The other one is an earlier event of its key, or another copy of its message. An event that has waited
        itself need not wait again: the clock of the store decides when it is due.
        """
        if not self._until or _has_waited(claim):
            return 0
        return max(self._due(order_group_key(self._order, claim)), self._due(identity))

    def sort_copies(self, claims: list[Claim]) -> None:
        """Puts messages that have waited before the others, which may be copies of them."""
        if self._has_waits:
            claims.sort(key=lambda claim: not _has_waited(claim))

    def has(self, destination: Destination) -> bool:
        """Whether all events of an input have to wait."""
        return bool(self._until) and self._order == DESTINATION and self._due(destination) > 0

    def _note(self, key: Hashable, due: int) -> None:
        self._has_waits = True
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


def _has_waited(claim: Claim) -> bool:
    return "connector_retries" in claim.headers().properties
