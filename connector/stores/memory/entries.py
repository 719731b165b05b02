"""Messages in memory, and the parts of channels that hold them. Callers hold the lock."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.claims import LocalClaim

_ENTRY_BYTES: Final = 800
"""Approximate bytes of an entry without its texts. Measured with CPython 3.11."""
_PROPERTY_BYTES: Final = 200


@dataclass(slots=True)
class Body:
    """The bytes of a message, and the number of entries that share them."""

    data: bytes
    links: int = 0


class Entry:
    """A message in one channel.

    Args:
        number: unique within the provider. The longer a message waits, the lower its number.
        message: headers and properties. Never changed in place, because entries may share them.
        body: shared with other entries of the same message.
        order: the place among waiting messages.
    """

    __slots__ = ("body", "claim", "due", "message", "number", "order", "part", "ticket", "weight")

    def __init__(self, number: int, message: Message, body: Body, order: tuple[int, int]) -> None:
        self.number = number
        self.message = message
        self.body = body
        self.order = order
        self.part: ChannelPart | None = None
        """The part in which the message waits or lies. None = nowhere."""
        self.claim: MemoryClaim | None = None
        """The claim that took or left the message. None while the message waits."""
        self.due = message.delivery_time
        """Until when the message is delayed, in milliseconds since 1970. 0 = not at all."""
        self.ticket = 0
        """Counts changes of place, so that an outdated claim or heap item is recognised."""
        self.weight = weigh(message)

    def replace_claim(self, owner: Owner | None) -> None:
        """Replaces the claim by a new object for ``owner``."""
        if (old := self.claim) is not None:
            self.claim = MemoryClaim(
                self, old.home, owner, old.destination, in_progress=old.in_progress, waits=old.waits
            )


class MemoryClaim(LocalClaim):
    __slots__ = ("_ticket", "entry")

    def __init__(
        self,
        entry: Entry,
        home: Channel,
        owner: Owner | None,
        destination: Destination | None,
        *,
        in_progress: bool,
        waits: bool = False,
    ) -> None:
        self.entry = entry
        self._ticket = entry.ticket
        super().__init__(
            (entry.number, entry.ticket),
            entry.message,
            home,
            owner,
            destination,
            in_progress=in_progress,
            waits=waits,
        )

    @property
    def is_held(self) -> bool:
        """Whether the message is unchanged since this claim was made: not settled, returned or taken over."""
        return self.entry.ticket == self._ticket


class WaitingEntries:
    """Waiting entries, the lowest order first. Entries that have left are dropped later."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int], int, int, Entry]] = []

    def push(self, entry: Entry, order: tuple[int, int], waiting: int) -> None:
        """Adds an entry. ``waiting`` = number in the channel. A heap of more than twice that is cleaned."""
        heap = self._heap
        if len(heap) > 64 and len(heap) > 2 * waiting:
            heap[:] = [item for item in heap if item[3].ticket == item[2]]
            heapq.heapify(heap)
        heapq.heappush(heap, (order, entry.number, entry.ticket, entry))

    def pop(self, limit: tuple[int, int] | None = None) -> Entry | None:
        """Returns the next entry that still waits, up to ``limit`` in the order."""
        heap = self._heap
        while heap and (limit is None or heap[0][0] <= limit):
            _, _, ticket, entry = heapq.heappop(heap)
            if entry.ticket == ticket:
                return entry
        return None

    def first(self) -> Entry | None:
        """Returns the next entry that still waits, and leaves the entry."""
        heap = self._heap
        while heap and heap[0][3].ticket != heap[0][2]:
            heapq.heappop(heap)
        return heap[0][3] if heap else None

    def __iter__(self) -> Iterator[Entry]:
        """Yields the waiting entries, in no order."""
        return (item[3] for item in self._heap if item[3].ticket == item[2])


Offer = Callable[["Entry | None", str], None]
"""Tells a reader that a message waits, and which client gave it back. None = the channel has ended."""


class ChannelPart:
    """The messages of one part of one channel. Callers hold the lock."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.waiting = WaitingEntries()
        self.count = 0
        """Number of waiting messages."""
        self.claimed: dict[int, Entry] = {}
        """Messages that lie here claimed, or left without an owner, by number."""
        self.readers: dict[object, Offer] = {}

    def enter(self, entry: Entry, returned_by: str = "") -> None:
        """Adds a waiting message. ``returned_by`` is the client that has given the message back."""
        entry.part = self
        entry.ticket += 1
        self.count += 1
        order = (entry.due, entry.number) if self.channel.part is Part.DELAYED else entry.order
        self.waiting.push(entry, order, self.count)
        for offer in self.readers.values():
            offer(entry, returned_by)


def weigh(message: Message) -> int:
    """Returns the approximate bytes of an entry."""
    size = _ENTRY_BYTES
    for text in (message.message_id, message.correlation_id, message.reply_to, message.type):
        if text:
            size += len(text)
    for name, value in message.properties.items():
        size += _PROPERTY_BYTES + len(name) + (len(value) if isinstance(value, str) else 0)
    return size
