"""Messages at a broker whose events come again later: each waits in a queue of the adapter until its time.

A rollback would count as a delivery, and give back the other messages of the transaction. So the transaction
acknowledges the message, and sends a copy to this queue. The copy names its input and its time. When the time
has come, the input takes the copy before other messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from connector.brokers.engine.broker import BrokerConnection, BrokerSession
from connector.brokers.engine.claims import (
    BEGUN,
    DIGEST,
    DUE,
    HELD_FOR,
    ORIGIN,
    LentClaim,
    input_name,
    original,
    remove,
)
from connector.brokers.engine.commits import quote
from connector.brokers.engine.copies import edited_copy, moved_copy
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription

_LOOK_MS: Final = 10_000
"""Milliseconds between two looks for messages that other instances have left, or that are due much later."""


class LaterMessages:
    """The messages of an application that come again later, as one connection sees them."""

    def __init__(self, connection: BrokerConnection, queue: Destination) -> None:
        self.queue = queue
        self._connection = connection
        self._due: dict[str, int] = {}
        """By input: the time of the earliest message that is known, in milliseconds since 1970."""
        self._look_at = 0

    def post(self, session: BrokerSession, settlement: Settlement, name: str, copied: Message) -> None:
        """Posts the copy of a message whose event comes again later.

        Args:
            session: with the transaction that acknowledges the message.
            copied: the message as the session has received it.
        """
        session.post(self.queue, self._copy(settlement, name), copied=copied)
        self._note(name, settlement.due)

    def post_back(self, session: BrokerSession, settlement: Settlement, copied: Message) -> None:
        """Posts a copy that is due now, for an input that is a subscription of a topic.

        Args:
            session: with the transaction that acknowledges the message.
            settlement: with the topic and the name of the subscription.
            copied: the message as the session has received it.
        """
        claim, topic = settlement.claim, settlement.copy_to
        assert isinstance(claim, LentClaim)
        assert topic is not None
        copy = edited_copy(settlement)
        marks = {
            DIGEST: claim.identity.rpartition(" ")[2],
            HELD_FOR: input_name(TopicSubscription(topic, settlement.subscription)),
            ORIGIN: str(topic),
        }
        for mark, value in marks.items():
            copy.set_property(mark, value)
        copy.set_property(DUE, _now(), "long")
        session.post(self.queue, copy, copied=copied)

    def _copy(self, settlement: Settlement, name: str) -> Message:
        claim = settlement.claim
        assert isinstance(claim, LentClaim)
        marks = {
            DIGEST: claim.identity.rpartition(" ")[2],
            HELD_FOR: name,
            ORIGIN: str(claim.destination),
            BEGUN: max(0, settlement.delivery_count),
            **settlement.properties,
        }
        copy = moved_copy(claim.reference.message, marks, expires=True)
        copy.set_property(DUE, settlement.due, "long")
        return copy

    def _note(self, name: str, due: int) -> None:
        """Notes a message of an input and its time."""
        self._due[name] = min(due, self._due.get(name, due))

    def seconds(self, name: str) -> float:
        """Returns the seconds until the next message of an input is due, as far as is known."""
        due = self._due.get(name)
        return float("inf") if due is None else max(0.0, (due - _now()) / 1000)

    def look(self) -> None:
        """Looks now and then for messages that are due soon.

        Raises:
            ProviderError: the queue cannot be browsed.
        """
        now = _now()
        if now >= self._look_at:
            for message in self._browse(f"{DUE} <= {now + _LOOK_MS}"):
                self._note_message(message)
            ended = _now()
            self._look_at = ended + max(_LOOK_MS, ended - now)  # a slow broker has other things to do

    def look_again(self, name: str) -> None:
        """Looks for the next message of an input, none of which is due."""
        self._due.pop(name, None)
        for message in self._browse(f"{HELD_FOR} = {quote(name)} AND {DUE} <= {_now() + _LOOK_MS}"):
            self._note_message(message)

    def _note_message(self, message: Message) -> None:
        due = message.properties.get(DUE)
        if isinstance(due, int):  # any client may send to the queue
            self._note(str(message.properties.get(HELD_FOR)), due)

    def browse(self, name: str) -> Iterator[Message]:
        """Yields the messages of an input, as their senders made them, with their ``delivery_time``."""
        for message in self._browse(f"{HELD_FOR} = {quote(name)}"):
            original(message)
            due = remove(message, (DIGEST, HELD_FOR, ORIGIN, DUE)).get(DUE)
            message.delivery_time = due if isinstance(due, int) else 0
            yield message

    def _browse(self, selector: str) -> Iterator[Message]:
        try:
            yield from self._connection.browse(self.queue, selector)
        except UnknownDestination:
            return


def _now() -> int:
    return time.time_ns() // 1_000_000
