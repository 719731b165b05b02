"""Messages in memory: a reference with its headers, and a body that references may share."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, Protocol

from connector.core.local.channel import Channel, Owner
from connector.core.local.claims import LocalClaim
from connector.core.state import MessageState
from connector.messaging.destination import Destination
from connector.messaging.message import Message

_ENTRY_BYTES: Final = 800
"""What a reference without its texts takes, about; measured with CPython 3.11."""
_PROPERTY_BYTES: Final = 200


class Body:
    """The bytes of a message, and how many references there are to them."""

    __slots__ = ("data", "links")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.links = 0


class Entry:
    """A message in one channel.

    Args:
        number: unique within the provider; what waits longer has the lower one.
        message: headers and properties, never changed in place, because references may share them.
        body: shared with other references to the same message.
        order: where it stands among those that wait.
    """

    __slots__ = (
        "body",
        "home",
        "in_progress",
        "message",
        "number",
        "order",
        "owner",
        "part",
        "state",
        "taken_from",
        "takes",
        "ticket",
        "waits",
        "weight",
    )

    def __init__(self, number: int, message: Message, body: Body, order: tuple[int, int]) -> None:
        self.number = number
        self.message = message
        self.body = body
        self.order = order
        self.state = MessageState.NOT_COMMITTED
        self.part: ChannelPart | None = None
        """Where it lies."""
        self.home: Channel | None = None
        """Where a claim of it goes back to."""
        self.taken_from: Destination | None = None
        self.owner: Owner | None = None
        self.in_progress = False
        self.waits = False
        self.takes = 0
        """Counts claims and returns, so that a late claim is told from the one that holds now."""
        self.ticket = 0
        """Counts its entries into channels: a heap may have a late one."""
        self.weight = weigh(message)


class MemoryClaim(LocalClaim):
    """See :class:`connector.core.local.claims.LocalClaim`."""

    __slots__ = ("_takes", "entry")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self._takes = entry.takes
        assert entry.part is not None
        channel = entry.part.channel
        super().__init__(
            (entry.number, entry.takes),
            entry.message,
            entry.home or channel,
            entry.owner,
            entry.taken_from,
            in_progress=entry.in_progress,
            waits=entry.waits,
        )

    @property
    def is_held(self) -> bool:
        """Whether the message is as it was when this was made: not settled, returned or taken over."""
        return self.entry.takes == self._takes and self.entry.state is not MessageState.REMOVED


class Waiting:
    """References that wait, in the order in which they are taken. What has left is forgotten on the way."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], int, int, Entry]] = []

    def push(self, entry: Entry, waiting: int) -> None:
        """Adds one. ``waiting`` is how many the channel has: more than twice as many here are mostly gone."""
        heap = self._heap
        if len(heap) > 64 and len(heap) > 2 * waiting:
            heap[:] = [item for item in heap if _still_waits(item)]
            heapq.heapify(heap)
        heapq.heappush(heap, (entry.order, entry.number, entry.ticket, entry))

    def pop(self) -> Entry | None:
        """The next one that still waits."""
        heap = self._heap
        while heap:
            item = heapq.heappop(heap)
            if _still_waits(item):
                return item[3]
        return None

    def __len__(self) -> int:
        """References kept, those that have left and are not forgotten yet among them."""
        return len(self._heap)

    def __iter__(self) -> Iterator[Entry]:
        """Those that wait, in no order."""
        return (item[3] for item in self._heap if _still_waits(item))


class Taker(Protocol):
    """Whoever takes from a part of a channel."""

    def offer(self, entry: Entry, returned_by: str = "") -> None:
        """A message waits; ``returned_by`` is the client that has given it back."""

    def wake(self) -> None:
        """The channel has ended."""


class ChannelPart:
    """The messages of one part of one channel. Whoever calls holds the lock.

    Args:
        channel: with its part.
    """

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.waiting = Waiting()
        self.count = 0
        """Messages that wait."""
        self.claimed: dict[int, Entry] = {}
        """Messages that lie here claimed, or left without an owner, by number."""
        self.readers: dict[Taker, None] = {}
        self.ended = False

    def enter(self, entry: Entry, returned_by: str = "") -> None:
        """A message waits from now on; ``returned_by`` is the client that has given it back."""
        entry.part = self
        entry.state = MessageState.NEW
        entry.home = entry.taken_from = entry.owner = None
        entry.in_progress = entry.waits = False
        entry.ticket += 1
        self.count += 1
        self.waiting.push(entry, self.count)
        for reader in self.readers:
            reader.offer(entry, returned_by)


def _still_waits(item: tuple[tuple[int, int], int, int, Entry]) -> bool:
    _, _, ticket, entry = item
    return entry.ticket == ticket and entry.state is MessageState.NEW


def weigh(message: Message) -> int:
    """Bytes that a reference takes, about."""
    size = _ENTRY_BYTES
    for text in (message.message_id, message.correlation_id, message.reply_to, message.type):
        if text:
            size += len(text)
    for name, value in message.properties.items():
        size += _PROPERTY_BYTES + len(name) + (len(value) if isinstance(value, str) else 0)
    return size
