"""Pollers: they take messages from one part of one channel."""

from __future__ import annotations

import threading
from collections.abc import Callable

from connector.core.local.channel import Channel
from connector.core.local.claims import LocalClaim
from connector.core.local.client import Client
from connector.core.local.store import Reader, Verdict
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Poller
from connector.messaging.selector import Selector


class DeliveryRules:
    """Decide about a message before it is taken (see :class:`connector.core.local.store.Judge`).

    A message that has expired, or was delivered too often, is put aside before a selector is asked.

    Args:
        limit: deliveries begun after which a message is put aside; None = no limit.
        selector: of the messages that are taken; None = all.
        is_view: a virtual destination is polled: what has expired or failed is just what it shows.
    """

    def __init__(self, limit: int | None, selector: Selector | None, *, is_view: bool) -> None:
        self.limit = limit
        self.selects = selector is not None
        self.selector = selector.text if selector is not None else ""
        self.is_view = is_view
        self._matches = selector.matches if selector is not None else None

    def __call__(self, headers: Message, now: int) -> Verdict:
        """See :class:`connector.core.local.store.Judge`."""
        if not self.is_view:
            if 0 < headers.expiration <= now:
                return Verdict.EXPIRED
            if self.limit is not None and headers.delivery_count > self.limit:
                return Verdict.EXHAUSTED
        if self._matches is not None and not self._matches(headers):
            return Verdict.LEAVE
        return Verdict.TAKE


class LocalPoller(Poller):
    """See :class:`connector.messaging.provider.Poller`.

    Args:
        client: who takes.
        channel: that is taken from, with its part.
        reader: of that channel.
        destination: as it was asked for.
        leave: called once, when the poller is closed.
        may_end: whether the channel can end before its consumers do.
    """

    def __init__(
        self,
        client: Client,
        channel: Channel,
        reader: Reader,
        destination: Destination,
        leave: Callable[[LocalPoller], None],
        *,
        may_end: bool,
    ) -> None:
        self.destination = destination
        self.expired = 0
        self._client = client
        self._channel = channel
        self._reader = reader
        self._leave = leave
        self._may_end = may_end
        self._closed = False
        self._ending = threading.RLock()  # its connection may close it at the same time, from another thread

    def claim(self, cycle: int, numbers: range) -> list[LocalClaim]:
        """See :meth:`connector.messaging.provider.Poller.claim`."""
        if self._closed:
            raise ProviderError(f"the consumer of {self.destination} is closed: make another")
        claims = self._reader.claim(cycle, numbers)
        self.expired = self._reader.expired
        if not claims and self._may_end and not self._client.store.has(self._channel):
            raise ProviderError(
                f"{self.destination} has ended: it was temporary, or its subscription was removed"
            )
        return claims

    def has_news(self) -> bool:
        """Whether :meth:`claim` may find something, or say something."""
        return self._closed or self._reader.has_news()

    def close(self) -> None:
        """See :meth:`connector.messaging.provider.Poller.close`."""
        with self._ending:
            if not self._closed:
                self.abandon()
                self._leave(self)

    def abandon(self) -> None:
        """Takes no more, and tells nobody: as the death of its process would end it."""
        with self._ending:
            self._closed = True
            self._reader.close()
