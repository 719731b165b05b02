"""Channels: which message is in which state (seed 001, section 5).

A queue, like a subscription of a topic, is three of them: what waits or is claimed, what has expired,
and what was delivered too often.
"""

from __future__ import annotations

import itertools
from typing import Final, Protocol

from connector.core.state import MessageState, Transition
from connector.core.subscriptions import is_local
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import TopicSubscription
from connector.messaging.selector import Selector
from connector.providers.memory.clients import Client
from connector.providers.memory.entries import Entry, Holder, Waiting
from connector.providers.memory.store import MessageStore

_tickets: Final = itertools.count(1)


class Consumer(Protocol):
    """Who takes from a channel."""

    def offer(self, entry: Entry, returned_by: Holder | None = None) -> None:
        """It waits from now on; ``returned_by`` says who has given it back."""


class Channel:
    """Messages that are NEW or DELIVERED.

    Args:
        store: where its messages are.
        destination: that its messages are taken from.
        text: names it in duplicate keys.
    """

    def __init__(self, store: MessageStore, destination: Destination, text: str = "") -> None:
        self.store = store
        self.destination = destination
        self.text = text or str(destination)
        self.waiting = Waiting()
        self.count = 0
        """Messages that wait."""
        self.delivered: dict[int, Entry] = {}
        self.consumers: dict[Consumer, None] = {}
        self.ended = False

    def enter(self, entry: Entry, returned_by: Holder | None = None) -> None:
        """A message that is NEW comes in, or comes back; ``returned_by`` says who has given it back."""
        entry.channel = self
        entry.ticket = next(_tickets)
        self.count += 1
        self.waiting.push(entry, self.count)
        for consumer in self.consumers:
            consumer.offer(entry, returned_by)

    def leave(self, entry: Entry, transition: Transition) -> None:
        """A message that waits does so no longer."""
        entry.move(transition)
        self.count -= 1

    def drop(self, entry: Entry) -> None:
        """A message goes, in whatever state it is."""
        if entry.state is MessageState.NEW:
            self.count -= 1
        else:
            self.delivered.pop(entry.number, None)
        entry.state = MessageState.REMOVED
        self.store.remove(entry)

    def end(self) -> None:
        """Drops what waits. What is claimed stays so, and is dropped where it is given back."""
        self.ended = True
        for entry in list(self.waiting):
            self.drop(entry)

    def in_order(self) -> list[Entry]:
        """All messages, in the order in which they would be taken."""
        found = [*self.waiting, *self.delivered.values()]
        found.sort(key=lambda entry: entry.order)
        return found


class Inbox(Channel):
    """A channel that messages are delivered from; what cannot be delivered is kept beside it."""

    def __init__(self, store: MessageStore, destination: Destination, text: str = "") -> None:
        super().__init__(store, destination, text)
        self.expired = Channel(store, destination, self.text)
        self.error = Channel(store, destination, self.text)
        """Delivered too often."""

    @property
    def claimed(self) -> int:
        """Messages that are claimed, from wherever in it they were taken."""
        return sum(len(part.delivered) for part in self.parts())

    def parts(self) -> tuple[Channel, ...]:
        """Itself, and what is kept beside it."""
        return self, self.expired, self.error

    def end(self) -> None:
        for part in (self.expired, self.error):
            part.end()
        super().end()


class Queue(Inbox):
    """A queue."""

    def shown(self, view: str) -> list[Entry]:
        """What can be seen of it, or of one of its virtual destinations, in the order of taking."""
        claimed = [entry for part in self.parts() for entry in part.delivered.values()]
        if view == "PROCESSING":
            found = claimed
        elif view:
            found = list(self.part(view).waiting)
        else:
            found = [*self.waiting, *claimed]
        found.sort(key=lambda entry: entry.order)
        return found

    def part(self, view: str) -> Channel:
        """Where what a virtual destination shows is taken from; itself for the empty view."""
        if view == "EXPIRED":
            return self.expired
        return self.error if view in ("RECOVER-ERROR", "REJECT-ERROR") else self


class Subscription(Inbox):
    """What one subscription of a topic holds.

    Args:
        details: what it was made for.
        selector: its compiled selector; None = all messages.
        origin: whose messages are local for ``no_local``.
    """

    def __init__(
        self,
        store: MessageStore,
        details: TopicSubscription,
        selector: Selector | None,
        origin: str,
    ) -> None:
        name = f"{details.client_id}|{details.name}".replace("\n", "%0A")
        super().__init__(store, details.topic, f"{details.topic} {name}")
        self.details = details
        self.origin = origin
        self.members: list[Client] = []
        """The client of each of its consumers."""
        self._selector = selector

    def wants(self, message: Message, origin: str) -> bool:
        """Whether a message sent to the topic is for it."""
        if self.details.no_local and is_local(self.details, self.origin, origin):
            return False
        return self._selector is None or self._selector.matches(message)
