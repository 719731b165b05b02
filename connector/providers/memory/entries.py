"""References and bodies: what a channel handles, and what it stands for (seed 001, section 3).

A channel passes references on; a body is looked at only by who reads the message. The copies of one
message that the subscriptions of a topic hold share its body, which goes with the last of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from connector.core.state import TRANSITIONS, MessageState, Transition
from connector.messaging.destination import Destination
from connector.messaging.message import Message, PropertyValue, natural_type
from connector.messaging.provider import HISTORY

_ATTEMPTS: Final = "connector_attempts"

_ENTRY_BYTES: Final = 800
"""What a reference without its texts takes, about; measured with CPython 3.11."""
_PROPERTY_BYTES: Final = 200


class Body:
    """The bytes of a message, and how many references there are to them."""

    __slots__ = ("data", "links")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.links = 0


class Place(Protocol):
    """The channel that a message stands in, as the message knows it."""

    destination: Destination
    text: str
    """Names it in duplicate keys."""
    ended: bool
    delivered: dict[int, Entry]
    """By number."""

    def enter(self, entry: Entry, returned_by: Holder | None = None) -> None:
        """A message that is NEW comes in, or comes back."""

    def leave(self, entry: Entry, transition: Transition) -> None:
        """A message that waits does so no longer."""

    def drop(self, entry: Entry) -> None:
        """A message goes, in whatever state it is."""


class Holder(Protocol):
    """Who has claims."""

    claims: dict[int, Entry]
    """By number."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Who has claimed a message, and as what.

    Args:
        owner: None where nobody knows any more, or it only waits in an in-progress destination.
        cycle, sequence: the claim's.
        home: the channel that it goes back to.
        destination: where it was taken from.
        requeue: settled without a copy, it waits there again, as new.
        waits: a settlement has left it in its in-progress destination.
        adopted: it was found in an in-progress destination.
    """

    owner: Holder | None
    cycle: int
    sequence: int
    home: Place
    destination: Destination
    requeue: Place | None = None
    waits: bool = False
    adopted: bool = False


class Entry:
    """A message in one channel: its reference and its state.

    Args:
        number: unique within the provider.
        headers: headers and properties; never changed in place, for it may be shared.
        body: shared with other references to the same message.
        order: where it stands among those that wait.
        origin: of whoever sent it, for ``no_local``.
    """

    __slots__ = (
        "body",
        "channel",
        "headers",
        "hold",
        "number",
        "order",
        "origin",
        "state",
        "takes",
        "ticket",
        "weight",
    )

    def __init__(
        self, number: int, headers: Message, body: Body, order: tuple[int, int, str], origin: str
    ) -> None:
        self.number = number
        self.headers = headers
        self.body = body
        self.order = order
        self.origin = origin
        self.state: MessageState | None = None
        self.channel: Place | None = None
        self.hold: Hold | None = None
        self.takes = 0
        """Counts claims and returns, so that a late claim is told from the one that holds now."""
        self.ticket = 0
        self.weight = weigh(headers)

    @property
    def deliveries(self) -> int:
        """Deliveries begun so far, that of the claim not counted."""
        return self.headers.delivery_count - 1

    def move(self, transition: Transition) -> None:
        """To its next state; a way that :data:`TRANSITIONS` does not have is a ``KeyError``."""
        self.state = TRANSITIONS[(self.state, transition)]


class Waiting:
    """References that wait, in the order in which they are taken. What has left is forgotten on the way."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int, str], int, Entry]] = []

    def push(self, entry: Entry, waiting: int) -> None:
        """Adds one. ``waiting`` is how many the channel has: more than twice as many here are mostly gone."""
        heap = self._heap
        if len(heap) > 64 and len(heap) > 2 * waiting:
            heap[:] = [item for item in heap if _still_waits(item)]
            heapq.heapify(heap)
        heapq.heappush(heap, (entry.order, entry.ticket, entry))

    def pop(self) -> Entry | None:
        """The next one that still waits."""
        heap = self._heap
        while heap:
            item = heapq.heappop(heap)
            if _still_waits(item):
                return item[2]
        return None

    def __len__(self) -> int:
        """References kept, those that have left and are not forgotten yet among them."""
        return len(self._heap)

    def __iter__(self) -> Iterator[Entry]:
        """Those that wait, in no order."""
        return (item[2] for item in self._heap if _still_waits(item))


def _still_waits(item: tuple[tuple[int, int, str], int, Entry]) -> bool:
    _, ticket, entry = item
    return entry.ticket == ticket and entry.state is MessageState.NEW


def copy_message(message: Message, body: bytes = b"") -> Message:
    """A message of its own, with another body."""
    return Message(
        body,
        message.message_class,
        message.message_id,
        message.timestamp,
        message.correlation_id,
        message.reply_to,
        message.type,
        message.delivery_mode,
        message.priority,
        message.expiration,
        message.delivery_count,
        message.destination,
        dict(message.properties),
        dict(message.property_types),
    )


def with_properties(
    headers: Message,
    properties: Mapping[str, PropertyValue],
    *,
    deliveries: int,
    inherit_own: bool,
) -> Message:
    """The headers with ``properties`` added and the deliveries begun set.

    Args:
        inherit_own: False drops what the adapter has added before.
    """
    changed = copy_message(headers)
    changed.delivery_count = deliveries + 1
    if not inherit_own:
        for name in HISTORY:
            changed.properties.pop(name, None)
            changed.property_types.pop(name, None)
    for name, value in properties.items():
        changed.set_property(name, value, natural_type(value))
    return changed


def counted_anew(headers: Message) -> Message:
    """The headers of a message that is put aside: its deliveries are ``connector_attempts`` from now on."""
    earlier = headers.properties.get(_ATTEMPTS)
    attempts = headers.delivery_count - 1 + (earlier if isinstance(earlier, int) and earlier > 0 else 0)
    return with_properties(headers, {_ATTEMPTS: attempts}, deliveries=0, inherit_own=True)


def weigh(headers: Message) -> int:
    """Bytes that a reference takes, about."""
    size = _ENTRY_BYTES
    for text in (headers.message_id, headers.correlation_id, headers.reply_to, headers.type):
        if text:
            size += len(text)
    for name, value in headers.properties.items():
        size += _PROPERTY_BYTES + len(name) + (len(value) if isinstance(value, str) else 0)
    return size
