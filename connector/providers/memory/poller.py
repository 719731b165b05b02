"""Pollers: they take messages from a channel, one by one."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from connector.core.state import MessageState, Transition
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.selector import Selector
from connector.providers.memory.channel import Channel, Inbox, Queue
from connector.providers.memory.claims import MemoryClaim, claim
from connector.providers.memory.clients import Client
from connector.providers.memory.entries import Entry, Hold, Holder, Waiting, counted_anew
from connector.providers.memory.memory import Memory


class MemoryPoller:
    """See :class:`connector.messaging.provider.Poller`.

    Args:
        memory, client: who takes.
        channel: that it takes from.
        destination: as it was asked for.
        come: called when a message waits; ``returned`` where the client itself has given it back.
        forget: called when it is closed.
        selector: of a queue; None = all messages.
        in_progress: the queue that a claimed message stands in; None = its own.
        requeue: for ``~RECOVER-ERROR``; see :class:`~connector.providers.memory.entries.Hold`.
        is_view: what is there is not for delivery: it has expired, or was delivered too often.
    """

    def __init__(
        self,
        memory: Memory,
        client: Client,
        channel: Channel,
        destination: Destination,
        *,
        come: Callable[..., None],
        forget: Callable[[MemoryPoller], None],
        selector: Selector | None = None,
        in_progress: Queue | None = None,
        requeue: Queue | None = None,
        is_view: bool = False,
    ) -> None:
        self._memory = memory
        self._client = client
        self.channel = channel
        self.destination = destination
        self.expired = 0
        self.pending = True
        """Whether something may wait for it."""
        self._closed = False
        self._come = come
        self._forget = forget
        self._selector = selector
        self._waiting = channel.waiting
        self._rejected: list[tuple[int, int, int, Entry]] = []
        """Messages that the selector rejects and that expire, the first to expire first."""
        self._in_progress = in_progress
        self._requeue = requeue
        self._is_view = is_view
        if selector is not None:
            self._waiting = Waiting()
            for entry in channel.waiting:
                self.offer(entry)
        channel.consumers[self] = None

    def offer(self, entry: Entry, returned_by: Holder | None = None) -> None:
        """One that the selector rejects is looked at again only where it expires."""
        if self._selector is not None:
            if not (self._selector.matches(entry.headers) or self._was_delivered_too_often(entry)):
                if entry.headers.expiration:
                    self._reject(entry)
                return
            self._waiting.push(entry, self.channel.count)
        self.pending = True
        self._come(returned=returned_by is self._client)

    def take(self, cycle: int, sequence: int) -> MemoryClaim | None:
        """See :meth:`connector.messaging.provider.Poller.take`."""
        with self._memory:
            self._check_open()
            self._expire_rejected()
            while (entry := self._waiting.pop()) is not None:
                if not self._is_view and self._is_not_for_delivery(entry):
                    continue
                self.channel.leave(entry, Transition.CLAIM)
                hold = Hold(self._client, cycle, sequence, self.channel, self.destination, self._requeue)
                return claim(entry, hold, self._in_progress or self.channel)
            self.pending = False
            return None

    def close(self) -> None:
        """See :meth:`connector.messaging.provider.Poller.close`."""
        with self._memory:
            if not self._closed:
                self._closed = True
                self.channel.consumers.pop(self, None)
                self._forget(self)

    def _is_not_for_delivery(self, entry: Entry) -> bool:
        """Moves a message that has expired, or was delivered too often, to where such messages are kept."""
        if entry.headers.has_expired():
            self.channel.leave(entry, Transition.EXPIRE)
            self.expired += 1
            self._put_away(entry, expired=True)
            return True
        if self._was_delivered_too_often(entry):
            self.channel.leave(entry, Transition.CLAIM)
            entry.move(Transition.ACKNOWLEDGE)
            self._put_away(entry, expired=False)
            return True
        return False

    def _was_delivered_too_often(self, entry: Entry) -> bool:
        limit = self._memory.redelivery_limit
        return limit is not None and not self._is_view and entry.deliveries >= limit

    def _reject(self, entry: Entry) -> None:
        """Looks at a message again when it expires; what has left the channel is forgotten now and then."""
        rejected = self._rejected
        if len(rejected) > 64 and len(rejected) > 2 * self.channel.count:
            rejected[:] = [item for item in rejected if _still_waits(item)]
            heapq.heapify(rejected)
        heapq.heappush(rejected, (entry.headers.expiration, entry.number, entry.ticket, entry))

    def _expire_rejected(self) -> None:
        """Puts away what has expired among the messages that the selector has rejected."""
        while self._rejected and self._rejected[0][3].headers.has_expired():
            item = heapq.heappop(self._rejected)
            if not self._is_view and _still_waits(item):
                self._is_not_for_delivery(item[3])

    def _put_away(self, entry: Entry, *, expired: bool) -> None:
        memory = self._memory
        kept = memory.another(entry, entry.headers if expired else counted_anew(entry.headers))
        kept.move(Transition.SEND)
        if isinstance(self.channel, Inbox):
            (self.channel.expired if expired else self.channel.error).enter(kept)
        if expired:
            memory.store.expired[kept.number] = kept
        memory.store.remove(entry)

    def _check_open(self) -> None:
        self._client.check_open()
        if self._closed:
            raise ProviderError(f"the consumer of {self.destination} is closed: make another")
        if self.channel.ended:
            raise ProviderError(
                f"{self.destination} has ended: it was temporary, or its subscription was removed"
            )


def _still_waits(item: tuple[int, int, int, Entry]) -> bool:
    _, _, ticket, entry = item
    return entry.ticket == ticket and entry.state is MessageState.NEW
