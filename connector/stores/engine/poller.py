"""Pollers: take messages from one part of one channel."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.selector import Selector
from connector.stores.engine.channel import Channel, Part
from connector.stores.engine.claims import LocalClaim, duplicate_key
from connector.stores.engine.client import Client
from connector.stores.engine.store import Reader
from connector.stores.engine.topics import ForeignMessages


class LocalPoller(Poller):
    """Takes from one part of one channel by its reader.

    Args:
        destination: as requested.
        may_end: whether the channel can end before its consumers do.
        foreign: distributes messages that other programs put into the topic of a subscription. None for a
            queue.
        wanted: of the messages of a queue. None = all.
    """

    def __init__(
        self,
        client: Client,
        channel: Channel,
        reader: Reader,
        destination: Destination,
        on_close: Callable[[LocalPoller], None],
        *,
        may_end: bool,
        foreign: ForeignMessages | None = None,
        wanted: Selector | None = None,
    ) -> None:
        self.destination = destination
        self.subscription = channel.subscription
        self.expired = 0
        self._client = client
        self._channel = channel
        self._reader = reader
        self._on_close = on_close
        self._may_end = may_end
        self._foreign = foreign
        self._wanted = wanted
        self.read_again: Callable[[], Reader] | None = None
        """Returns a reader of the messages whose events come again later. None = there are none."""
        self._again: Reader | None = None
        self._closed = False
        self._ending = threading.RLock()  # the connection may close the poller from another thread

    @property
    def obstacle(self) -> str:
        return self._reader.obstacle

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        if self._closed:
            raise ProviderError(f"the consumer of {self.destination} is closed: make another")
        if self._foreign is not None:
            self._foreign.distribute(self.destination, cycle)
        reader = self._reader_of_again() if self.again else self._reader
        claims = reader.claim(cycle, numbers)
        self.expired = self._reader.expired + (self._again.expired if self._again is not None else 0)
        if not claims and self._may_end and not self._client.store.has(self._channel):
            raise ProviderError(
                f"{self.destination} has ended: it was temporary, or its subscription was removed"
            )
        return claims

    def set_min_age(self, seconds: float) -> None:
        self._reader.set_min_age(seconds)

    def settles_in(self) -> float:
        return math.inf if self._closed else self._reader.settles_in()

    def has_news(self) -> bool:
        """Whether :meth:`claim` may find a message, or raise."""
        if self._closed or self._reader.has_news():
            return True
        return self._foreign is not None and self._foreign.has_news(self.destination)

    def _reader_of_again(self) -> Reader:
        if self._again is None:
            assert self.read_again is not None
            self._again = self.read_again()
        return self._again

    def due_in(self) -> float:
        return math.inf if self._closed else self._reader.due_in()

    def delayed(self) -> Iterator[tuple[Message, str]]:
        store, channel = self._client.store, self._channel
        source = store.key_source(channel, self.destination)
        delayed = channel._replace(part=Part.DELAYED)
        for message in store.scan(delayed, waiting=True, claimed=False, unreadable=None):
            if self._wanted is not None and not self._wanted.matches(message):
                continue
            yield message, duplicate_key(source, message.message_id or "")

    def close(self) -> None:
        with self._ending:
            if not self._closed:
                self.abandon()
                self._on_close(self)

    def abandon(self) -> None:
        """Closes the poller as a crash would, without a call of ``on_close``."""
        with self._ending:
            self._closed = True
            self._reader.close()
            if self._again is not None:
                self._again.close()
