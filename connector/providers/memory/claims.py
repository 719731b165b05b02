"""Claims: messages that a client has taken, and the pollers that take them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from connector.core.state import MessageState, Transition
from connector.errors import MalformedData, ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.selector import Selector
from connector.providers.memory.channel import Channel, Inbox, Queue
from connector.providers.memory.clients import Client
from connector.providers.memory.entries import Entry, Waiting, copy_message
from connector.providers.memory.memory import Memory

if TYPE_CHECKING:
    from connector.providers.memory.connection import MemoryConnection


class MemoryClaim:
    """See :class:`connector.messaging.provider.Claim`.

    Args:
        entry: the message, as it is now.
        home: the channel that it goes back to.
        owner: who has taken it; None for one that only waits in an in-progress destination.
        destination: where it was taken from.
        requeue: settled without a copy, it waits in that queue again, as new.
    """

    __slots__ = (
        "_headers",
        "_takes",
        "cycle",
        "destination",
        "entry",
        "home",
        "owner",
        "requeue",
        "sequence",
    )

    def __init__(
        self,
        entry: Entry,
        home: Channel,
        owner: Client | None,
        cycle: int,
        sequence: int,
        destination: Destination,
        requeue: Queue | None = None,
    ) -> None:
        self.entry = entry
        self.home = home
        self.owner = owner
        self.cycle = cycle
        self.sequence = sequence
        self.requeue = requeue
        self.destination = destination
        self._headers = entry.headers
        self._takes = entry.takes

    @property
    def reference(self) -> str:
        """Names the channel, the message, and which claim of it this is."""
        assert self.entry.channel is not None
        return f"{self.entry.channel.destination.name}/{self.entry.number}-{self._takes}"

    @property
    def delivery_count(self) -> int:
        return self._headers.delivery_count - 1

    @property
    def message_id(self) -> str:
        return self._headers.message_id or ""

    @property
    def group_id(self) -> str | None:
        value = self._headers.properties.get("JMSXGroupID")
        return None if value is None else str(value)

    @property
    def duplicate_key(self) -> str:
        return f"{self.home.text}|{self.message_id}"

    def headers(self) -> Message:
        return copy_message(self._headers)

    @property
    def is_held(self) -> bool:
        """Whether the message is as it was when this claim was made: not settled, returned or taken over."""
        return self.entry.takes == self._takes and self.entry.state is not MessageState.REMOVED


def claim(
    entry: Entry,
    owner: Client,
    cycle: int,
    sequence: int,
    *,
    place: Channel,
    home: Channel,
    destination: Destination,
    requeue: Queue | None = None,
) -> MemoryClaim:
    """Makes a message that has left the NEW ones of its channel a claim, which stands in ``place``."""
    entry.takes += 1
    entry.channel = place
    place.delivered[entry.number] = entry
    taken = MemoryClaim(entry, home, owner, cycle, sequence, destination, requeue)
    entry.claim = owner.claims[entry.number] = taken
    return taken


def let_go(held: MemoryClaim) -> None:
    """Ends a claim; the message is in no channel now, and its state is still DELIVERED.

    One that only waits in an in-progress destination is taken out of it first.
    """
    entry = held.entry
    assert entry.channel is not None
    if entry.state is MessageState.NEW:
        entry.channel.leave(entry, Transition.CLAIM)
    entry.channel.delivered.pop(entry.number, None)
    if held.owner is not None:
        held.owner.claims.pop(entry.number, None)
    entry.claim = None
    entry.takes += 1


def read_claimed(memory: Memory, reference: str, max_body: int) -> Message:
    """The message of a claim, by its reference.

    Raises:
        LookupError: it is claimed so no longer.
        MalformedData: its body is larger.
    """
    number, _, takes = reference.rpartition("/")[2].partition("-")
    entry = memory.store.entries.get(int(number))
    if entry is None or entry.takes != int(takes):
        raise LookupError(f"{reference} is gone")
    body = entry.body.data
    if len(body) > max_body:
        raise MalformedData(f"the body has {len(body)} bytes, more than max_body ({max_body} bytes)")
    return copy_message(entry.headers, body)


class MemoryPoller:
    """See :class:`connector.messaging.provider.Poller`.

    Args:
        channel: that it takes from.
        destination: as it was asked for.
        selector: of a queue; None = all messages.
        in_progress: the queue that a claimed message stands in; None = its own.
        requeue: for ``~RECOVER-ERROR``; see :class:`MemoryClaim`.
        is_view: what is there is not for delivery: it has expired, or was delivered too often.
    """

    def __init__(
        self,
        connection: MemoryConnection,
        channel: Channel,
        destination: Destination,
        *,
        selector: Selector | None = None,
        in_progress: Queue | None = None,
        requeue: Queue | None = None,
        is_view: bool = False,
    ) -> None:
        self._connection = connection
        self._memory = connection.memory
        self.channel = channel
        self.destination = destination
        self.expired = 0
        self.pending = True
        """Whether something may wait for it."""
        self._closed = False
        self._selector = selector
        self._waiting = channel.waiting
        self._in_progress = in_progress
        self._requeue = requeue
        self._is_view = is_view
        if selector is not None:
            self._waiting = Waiting()
            for entry in channel.waiting:
                self.offer(entry)
        channel.consumers[self] = None

    def offer(self, entry: Entry) -> None:
        """One that the selector rejects is not looked at again."""
        if self._selector is not None:
            if not self._selector.matches(entry.headers):
                return
            self._waiting.push(entry, self.channel.count)
        self.pending = True
        self._connection.wake()

    def take(self, cycle: int, sequence: int) -> MemoryClaim | None:
        """See :meth:`connector.messaging.provider.Poller.take`."""
        with self._memory:
            self._check_open()
            while (entry := self._waiting.pop()) is not None:
                if not self._is_view and self._is_not_for_delivery(entry):
                    continue
                self.channel.leave(entry, Transition.CLAIM)
                return claim(
                    entry,
                    self._connection.client,
                    cycle,
                    sequence,
                    place=self._in_progress or self.channel,
                    home=self.channel,
                    destination=self.destination,
                    requeue=self._requeue,
                )
            self.pending = False
            return None

    def close(self) -> None:
        """See :meth:`connector.messaging.provider.Poller.close`."""
        with self._memory:
            if not self._closed:
                self._closed = True
                self.channel.consumers.pop(self, None)
                self._connection.forget_poller(self)

    def _is_not_for_delivery(self, entry: Entry) -> bool:
        """Moves a message that has expired, or was delivered too often, to where such messages are kept."""
        headers = entry.headers
        if headers.expiration and headers.expiration <= time.time_ns() // 1_000_000:
            self.channel.leave(entry, Transition.EXPIRE)
            self.expired += 1
            self._put_away(entry, expired=True)
            return True
        limit = self._memory.redelivery_limit
        if limit is not None and entry.deliveries >= limit:
            self.channel.leave(entry, Transition.CLAIM)
            entry.move(Transition.ACKNOWLEDGE)
            self._put_away(entry, expired=False)
            return True
        return False

    def _put_away(self, entry: Entry, *, expired: bool) -> None:
        memory = self._memory
        kept = memory.another(entry, entry.headers)
        kept.move(Transition.SEND)
        if isinstance(self.channel, Inbox):
            (self.channel.expired if expired else self.channel.error).enter(kept)
        if expired:
            memory.store.expired[kept.number] = kept
        memory.store.remove(entry)

    def _check_open(self) -> None:
        self._connection.check_open()
        if self._closed:
            raise ProviderError(f"the consumer of {self.destination} is closed")
        if self.channel.ended:
            raise ProviderError(f"{self.destination} has ended")
