"""The pollers of one client: which there are, what they take from, and waiting for them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Final

from connector.core.state import check_in_progress
from connector.core.subscriptions import check
from connector.errors import CapabilityError
from connector.messaging.destination import Destination
from connector.messaging.provider import TopicSubscription
from connector.messaging.selector import Selector
from connector.providers.dropbox.committer import Committer
from connector.providers.dropbox.distribution import Distributor
from connector.providers.dropbox.headers import HeaderStore
from connector.providers.dropbox.layout import Layout
from connector.providers.dropbox.lease import Pulse
from connector.providers.dropbox.poller import QueuePoller
from connector.providers.dropbox.subscriptions import SubscriptionStore
from connector.providers.dropbox.temporary import Temporaries
from connector.providers.dropbox.topics import SubscriptionPoller
from connector.providers.dropbox.waiter import Waiter, make_waiter

_SHORTEST_PAUSE: Final = 0.0005
_LONGEST_PAUSE: Final = 0.02
"""Seconds between two looks of one that waits; the first is soon, those of a long wait cost nothing."""


class Pollers:
    """Makes the pollers of one client, and ends them.

    Args:
        layout, headers, client_id: of the client.
        store, distributor, committer, temporaries: of the client.
        limit: deliveries of a message, then its ``error/``; None = no limit.
        keep: whether expired messages are kept.
        pulse: of the client; None = it only looks.
    """

    def __init__(
        self,
        layout: Layout,
        headers: HeaderStore,
        client_id: str,
        store: SubscriptionStore,
        distributor: Distributor,
        committer: Committer,
        temporaries: Temporaries,
        *,
        limit: int | None,
        keep: bool,
        pulse: Pulse | None,
    ) -> None:
        self._layout = layout
        self._headers = headers
        self._client_id = client_id
        self._store = store
        self._distributor = distributor
        self._committer = committer
        self._temporaries = temporaries
        self._limit = limit
        self._keep = keep
        self._pulse = pulse
        self._open: list[QueuePoller] = []
        self._subscribed = False
        self._ended = False
        self._woken = threading.Event()
        self._waiter: Waiter | None = None
        self._asked_for_waiter = False

    def make(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None,
        selector: Selector | None,
    ) -> QueuePoller:
        """See :meth:`connector.messaging.provider.Connection.poller`."""
        if isinstance(source, TopicSubscription):
            if in_progress is not None or selector is not None:
                raise CapabilityError(
                    f"a subscription of {source.topic} has a selector of its own and no in-progress "
                    "destination"
                )
            poller: QueuePoller = self._of_subscription(source)
        else:
            poller = self._of_queue(source, in_progress, selector)
        poller.on_close = lambda: self._forget(poller)
        self._open.append(poller)
        return poller

    def _of_queue(
        self, source: Destination, in_progress: Destination | None, selector: Selector | None
    ) -> QueuePoller:
        if not source.is_queue:
            raise CapabilityError(f"{source} holds no messages itself: subscribe to it")
        if source.view == "PROCESSING":
            raise CapabilityError(f"{source} can only be browsed: its messages are somebody's claims")
        check_in_progress(source, in_progress)
        self._temporaries.check_consumer(source)
        self._layout.ensure(source.base)
        moved_to = self._layout.ensure(in_progress) if in_progress else None
        return QueuePoller(
            self._layout,
            self._headers,
            self._client_id,
            self._layout.queue(source),
            moved_to,
            limit=self._limit,
            keep=self._keep,
            selector=selector,
            pulse=self._pulse,
            mark=self._temporaries.attach(source),
        )

    def _of_subscription(self, wanted: TopicSubscription) -> SubscriptionPoller:
        check(wanted)
        self._temporaries.check_consumer(wanted.topic)
        self._layout.ensure(wanted.topic)
        # what came before the subscription is not for it
        self._distributor.distribute(wanted.topic, self._committer)
        subscription, mark = self._store.attach(wanted)
        self._subscribed = self._subscribed or not wanted.durable
        return SubscriptionPoller(
            self._layout,
            self._headers,
            self._client_id,
            subscription,
            mark,
            self._store,
            self._distributor,
            self._committer,
            limit=self._limit,
            keep=self._keep,
            pulse=self._pulse,
        )

    def _forget(self, poller: QueuePoller) -> None:
        if poller in self._open:
            self._open.remove(poller)

    def look_again(self) -> None:
        """Messages came back: every poller must see them."""
        for poller in tuple(self._open):
            poller.look_again()

    def wait(self, seconds: float) -> None:
        """Until one of them may have something, :meth:`wake`, or all are closed; ``seconds`` at most."""
        deadline = time.monotonic() + seconds
        pause = _SHORTEST_PAUSE
        os.sched_yield()  # a folder that has just changed always has news: let those run who make them
        while not self._ended and not any(poller.has_news() for poller in tuple(self._open)):
            left = deadline - time.monotonic()
            if left <= 0 or self._woken.wait(min(pause, left)):
                break
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        self._woken.clear()  # only here: who was woken until now looks at the reason when this has returned

    def waiter(self) -> Waiter | None:
        """See :meth:`connector.messaging.provider.Connection.waiter`."""
        if not (self._asked_for_waiter or self._ended):
            self._asked_for_waiter = True
            self._waiter = make_waiter(self._directories)
        return self._waiter

    def _directories(self) -> Iterator[str]:
        for poller in self._open:
            yield from poller.directories

    def wake(self) -> None:
        """See :meth:`connector.messaging.provider.Connection.wake`."""
        self._woken.set()
        if self._waiter is not None:
            self._waiter.wake()

    def close(self) -> None:
        """Ends all of them, and the subscriptions that end with them."""
        self._end()
        for poller in tuple(self._open):
            poller.close()
        if self._subscribed:  # one may have waited for a claim to be settled
            self._store.sweep()

    def abandon(self) -> None:
        """Ends all of them as the death of the process would."""
        self._end()
        for poller in tuple(self._open):
            poller.abandon()

    def _end(self) -> None:
        self._ended = True
        self._woken.set()
        if self._waiter is not None:
            self._waiter.close()
