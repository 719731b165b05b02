"""Messages in memory, and the boxes that they lie in. Callers hold the lock of the memory."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.stores.engine.channel import Channel, Owner, Part
from connector.stores.engine.claims import LocalClaim

_ENTRY_BYTES: Final = 800
"""Approximate bytes of an entry without its texts. Measured with CPython 3.11."""
_PROPERTY_BYTES: Final = 200

Rank = tuple[int, int]
"""The position of a message in a line. The lowest is first."""


@dataclass(slots=True)
class Body:
    """The bytes of a message, and the number of entries that share them."""

    data: bytes
    links: int = 0


@dataclass(slots=True, eq=False)
class Entry:
    """A message in one box.

    Args:
        number: unique within the memory.
        headers: headers and properties. Never changed in place, because copies share them.
        body: shared with the copies of the message.
        order: the place among waiting messages: by priority, then by age. A copy keeps the place.
        due: until when the message is delayed, in milliseconds since 1970. 0 = not at all.
        channel: where the message waits or lies, with the part. None = nowhere.
        claim: took the message. None while the message waits.
        taken_at: time of the claim, in seconds since 1970.
        waits: whether the message was left in an in-progress destination to wait there.
        changes: counts changes of the place. The claims that were made before are lost.
        weight: approximate bytes of the entry without its body.
    """

    number: int
    headers: Message
    body: Body
    order: Rank
    due: int
    channel: Channel | None = None
    claim: LocalClaim | None = None
    taken_at: float = 0.0
    waits: bool = False
    changes: int = 0
    weight: int = field(init=False)

    def __post_init__(self) -> None:
        headers = self.headers
        texts = headers.message_id, headers.correlation_id, headers.reply_to, headers.type
        found = sum(len(one) for one in (*texts, *headers.properties.values()) if isinstance(one, str))
        names = sum(_PROPERTY_BYTES + len(name) for name in headers.properties)
        self.weight = _ENTRY_BYTES + found + names

    def new_claim(
        self, home: Channel, owner: Owner | None, destination: Destination | None, **state: bool
    ) -> LocalClaim:
        """Returns a claim of the message. ``state`` is ``in_progress`` and ``waits`` of the claim."""
        return LocalClaim((self.number, self.changes), self.headers, home, owner, destination, **state)


class Line:
    """Waiting messages in an order. A message that has left is dropped when its turn comes.

    Args:
        waiting: the waiting messages of a box, by number.
        place: returns the place of a message in the line.
    """

    def __init__(self, waiting: Mapping[int, Entry], place: Callable[[Entry], Rank]) -> None:
        self._waiting = waiting
        self._place = place
        self._heap: list[tuple[Rank, int]] = []

    def push(self, entry: Entry) -> None:
        """Adds a message. Most items of a line have not left, so that its length is that of the box."""
        if len(self._heap) > 2 * len(self._waiting) + 64:
            self._heap = [*{item for item in self._heap if self._find(*item)}]
            heapq.heapify(self._heap)
        heapq.heappush(self._heap, (self._place(entry), entry.number))

    def first(self) -> Entry | None:
        """Returns the first message, which stays."""
        while self._heap:
            if (entry := self._find(*self._heap[0])) is not None:
                return entry
            self.skip()
        return None

    def skip(self) -> None:
        """Drops the first message from the line."""
        heapq.heappop(self._heap)

    def _find(self, place: Rank, number: int) -> Entry | None:
        entry = self._waiting.get(number)
        return entry if entry is not None and self._place(entry) == place else None


by_order: Final[Callable[[Entry], Rank]] = attrgetter("order")


def _by_due(entry: Entry) -> Rank:
    return entry.due, entry.number


def _by_expiration(entry: Entry) -> Rank:
    return entry.headers.expiration, entry.number


class Box:
    """The messages of one part of one channel.

    Attributes:
        waiting: by number. ``line`` has them in the order of taking, ``expiring`` those that expire.
        claimed: by number. They lie here claimed.
    """

    def __init__(self, part: Part) -> None:
        self.waiting: dict[int, Entry] = {}
        self.line = Line(self.waiting, _by_due if part is Part.DELAYED else by_order)
        self.expiring = Line(self.waiting, _by_expiration)
        self.claimed: dict[int, Entry] = {}

    def add(self, entry: Entry) -> None:
        """Adds a waiting message."""
        self.waiting[entry.number] = entry
        self.line.push(entry)
        if entry.headers.expiration:
            self.expiring.push(entry)
