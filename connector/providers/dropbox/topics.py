"""Consuming from a subscription of a topic: a queue of its own, fed by the topic (seed 000)."""

from __future__ import annotations

import time
from typing import Final

from connector.providers.dropbox.claims import DropboxClaim
from connector.providers.dropbox.committer import Committer
from connector.providers.dropbox.distribution import Distributor
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.lease import Pulse
from connector.providers.dropbox.marks import Mark
from connector.providers.dropbox.poller import QueuePoller
from connector.providers.dropbox.subscriptions import Subscription, SubscriptionStore

_INTERVAL: Final = 0.05
"""Seconds between two looks, in one poll, for files that other programs have put into the topic."""


class SubscriptionPoller(QueuePoller):
    """Takes the messages of one subscription, and distributes foreign files of its topic on the way.

    Args:
        subscription, mark: of this consumer, as :meth:`SubscriptionStore.attach` gave them.
        store: detaches it at the end.
        distributor, committer: of this client.
        The others: as for a queue.
    """

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        client_id: str,
        subscription: Subscription,
        mark: Mark,
        store: SubscriptionStore,
        distributor: Distributor,
        committer: Committer,
        *,
        limit: int | None,
        keep: bool,
        pulse: Pulse | None,
    ) -> None:
        super().__init__(
            layout, headers, client_id, subscription.folders, limit=limit, keep=keep, pulse=pulse
        )
        self._subscription = subscription
        self._subscribed = mark  # not the mark of a queue, which goes without the lock that detach takes
        self._store = store
        self._distributor = distributor
        self._committer = committer
        self._look_at = 0.0
        self._cycle = -1
        self._topic = layout.queue(subscription.folders.destination).target

    @property
    def directories(self) -> tuple[str, ...]:
        """As for a queue, and where other programs put files for the topic."""
        return (*super().directories, self._topic)

    def claim(self, cycle: int, numbers: range) -> list[DropboxClaim]:
        """See :meth:`connector.messaging.provider.Poller.claim`."""
        now = time.monotonic()
        if (now >= self._look_at or cycle != self._cycle) and not self._closed:
            self._distributor.distribute(self.destination, self._committer)
            self._look_at = now + _INTERVAL
            self._cycle = cycle
        return super().claim(cycle, numbers)

    def has_news(self) -> bool:
        """As for a queue, and whether something foreign may wait for distribution."""
        return super().has_news() or self._distributor.has_news(self.destination)

    def _leave(self) -> None:
        self._store.detach(self._subscription, self._subscribed)

    def abandon(self) -> None:
        """Ends it as the death of its process would."""
        super().abandon()
        self._subscribed.abandon()
