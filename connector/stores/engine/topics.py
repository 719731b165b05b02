"""Messages that other programs put into a topic: the engine distributes them to the subscriptions."""

from __future__ import annotations

import itertools
import time
from typing import Final

from connector.messaging.destination import Destination
from connector.stores.engine.changes import Moved
from connector.stores.engine.channel import Channel
from connector.stores.engine.client import Client
from connector.stores.engine.rules import DeliveryRules
from connector.stores.engine.store import Reader
from connector.stores.engine.subscriptions import Subscriptions

_INTERVAL: Final = 0.05
"""Seconds between two looks in one poll."""
_ALL: Final = DeliveryRules(None, None, is_view=True)


class ForeignMessages:
    def __init__(self, client: Client, subscriptions: Subscriptions) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._readers: dict[Destination, Reader] = {}
        self._looked: dict[Destination, tuple[int, float]] = {}
        self._numbers = itertools.count(1)

    def distribute(self, topic: Destination, cycle: int | None = None) -> None:
        """Distributes the messages that have arrived in a topic.

        Args:
            cycle: of the calling poll. Within a cycle the topic is looked at only now and then. None = look
                now.

        Raises:
            ProviderError: a message cannot be distributed. The message stays.
        """
        now = time.monotonic()
        if cycle is not None and (known := self._looked.get(topic)) and known[0] == cycle and now < known[1]:
            return
        reader = self._reader(topic)
        while claims := reader.claim(0, range(number := next(self._numbers), number + 1)):
            changes = [
                Moved(claim, self._subscriptions.channels_for(topic, claim.headers(), is_foreign=True))
                for claim in claims
            ]
            self._client.store.apply(changes, fenced=True)
        if cycle is not None:
            self._looked[topic] = cycle, now + _INTERVAL

    def has_news(self, topic: Destination) -> bool:
        """Whether :meth:`distribute` may find a message."""
        return self._reader(topic).has_news()

    def _reader(self, topic: Destination) -> Reader:
        reader = self._readers.get(topic)
        if reader is None:
            reader = self._client.store.reader(Channel(topic), _ALL, None, topic)
            self._readers[topic] = reader
        return reader
