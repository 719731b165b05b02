"""Held messages: a queue of the adapter for messages that the broker would soon put aside.

A broker counts the deliveries of a message. A rollback and a lost connection count, too. At its limit the
broker moves the message to its dead letters. So the adapter moves a message to a queue of its own before the
last delivery, in one transaction. The copy has a count of its own. Each input takes its held messages first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from connector.brokers.engine.broker import BrokerConnection
from connector.brokers.engine.claims import BEGUN, DIGEST, HELD_FOR, ORIGIN, LentClaim, input_name
from connector.brokers.engine.commits import quote
from connector.brokers.engine.copies import moved_copy
from connector.brokers.engine.probe import Probe
from connector.brokers.engine.session import LendingSession
from connector.errors import SettlementError, UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.subscription import TopicSubscription

_log: Final = logging.getLogger("connector.core")

_LOOK_SECONDS: Final = 60.0
"""Seconds between two looks for messages that other instances have left."""
_IDS_SHOWN: Final = 5


class HeldMessages:
    """The held messages of an application, as one connection sees them.

    Args:
        limit: deliveries after which the broker puts a message aside.
    """

    def __init__(self, connection: BrokerConnection, queue: Destination, limit: int) -> None:
        self.queue = queue
        self._connection = connection
        self._limit = limit
        self._names: set[str] = set()
        """The inputs with held messages, as far as is known."""
        self._probe = Probe(connection)
        self._look_at = 0.0
        self._refused_until = 0.0

    def must_move(self, claims: Sequence[LentClaim]) -> bool:
        """Whether messages have to be moved before their events run.

        A killed adapter costs a delivery, too. So the move comes one delivery early. A message whose first
        delivery is the last one is not moved: every message would be.
        """
        return time.monotonic() >= self._refused_until and self.is_near(claims)

    def is_near(self, claims: Sequence[LentClaim]) -> bool:
        """Whether a message has its last delivery but one, or its last one, which is not its first."""
        return any(one.broker_count >= max(2, self._limit - 1) for one in claims)

    def must_keep(self, claims: Sequence[LentClaim]) -> bool:
        """Whether messages that go back have to be moved, because the next delivery would be the last one."""
        return any(one.broker_count >= self._limit - 1 for one in claims)

    def move(self, session: LendingSession) -> bool:
        """Moves all messages of a transaction, and ends the transaction.

        Held messages behind them are moved as well, so that they keep their order, and so are messages that
        the client library has fetched. If that fails after all, the transaction is rolled back.

        Returns:
            whether the transaction has ended. It has not if the queue takes no message, because a rollback
            would count as a delivery.

        Raises:
            ProviderError: the connection has failed.
        """
        name = session.input_name
        if self._probe.refuses(self.queue) or not self._probe.takes(self.queue):
            self._note_refusal(session, "the queue takes no message")
            return False
        if not session.take_rest():
            session.rollback()
            return True
        claims = list(session.claims)
        try:
            session.move(self.queue, [(one, self._copy(one, name)) for one in claims])
        except SettlementError as error:
            self._note_refusal(session, str(error))
            return True
        self._names.add(name)
        _log.warning(
            "messages are held, because the broker would soon put them aside",
            extra={
                "destination": str(session.destination),
                "queue": str(self.queue),
                "number": len(claims),
                "message_ids": [one.message_id for one in claims[:_IDS_SHOWN]],
                "deliveries": max(one.broker_count for one in claims),
                "limit": self._limit,
            },
        )
        return True

    def _note_refusal(self, session: LendingSession, reason: str) -> None:
        now = time.monotonic()
        if now >= self._refused_until:
            fields = {"destination": str(session.destination), "queue": str(self.queue)}
            _log.error("messages cannot be held", extra={**fields, "reason": reason})
        self._refused_until = now + _LOOK_SECONDS

    @staticmethod
    def _copy(claim: LentClaim, name: str) -> Message:
        marks: dict[str, PropertyValue] = {
            DIGEST: claim.identity.rpartition(" ")[2],
            HELD_FOR: name,
            ORIGIN: str(claim.destination),
        }
        if claim.carried:
            marks[BEGUN] = claim.carried
        return moved_copy(claim.reference.message, marks, expires=True)

    def may_have(self, name: str) -> bool:
        """Whether an input may have held messages. Looks at the queue now and then.

        Raises:
            ProviderError: the queue cannot be browsed.
        """
        if time.monotonic() >= self._look_at:
            self._names |= {str(one.properties.get(HELD_FOR)) for one in self._browse("IS NOT NULL")}
            self._look_at = time.monotonic() + _LOOK_SECONDS
        return name in self._names

    def _browse(self, condition: str) -> list[Message]:
        try:
            return list(self._connection.browse(self.queue, f"{HELD_FOR} {condition}"))
        except UnknownDestination:
            return []

    def knows(self, name: str) -> bool:
        """Whether a held message of an input is known."""
        return name in self._names

    def look_again(self, name: str) -> None:
        """Looks whether an input still has held messages. Raises ProviderError as :meth:`may_have`."""
        if not self._browse(f"= {quote(name)}"):
            self._names.discard(name)


class HeldInput:
    def __init__(
        self,
        held: HeldMessages,
        source: Destination | TopicSubscription,
        make: Callable[[Destination, str], LendingSession],
    ) -> None:
        self.messages = held
        """Of all inputs."""
        self._name = input_name(source)
        self._make = make
        self.session: LendingSession | None = None
        """None while no held message is known."""
        self.obstacle = ""
        """Why held messages do not come, and so no others either. Empty = nothing is in the way."""

    def look(self) -> bool:
        """Looks now and then whether there are held messages.

        Raises:
            ProviderError: the broker failed.
        """
        return self.messages.may_have(self._name)

    @property
    def has_some(self) -> bool:
        """Whether a held message is known."""
        return self.messages.knows(self._name)

    def claim(self, client_id: str, cycle: int, numbers: range) -> list[LentClaim]:
        """Receives held messages into a transaction of :attr:`session`. Returns none if there are none.

        Or none come, although the broker shows them. Then :attr:`session` stays, and :attr:`obstacle` tells.

        Raises:
            ProviderError: the broker failed.
        """
        self.obstacle = ""
        if not self.look():
            return []
        if self.session is None:
            self.session = self._make(self.messages.queue, f"{HELD_FOR} = {quote(self._name)}")
        taken = self.session.claim(client_id, cycle, numbers)
        if not taken:
            self.messages.look_again(self._name)
            if self.has_some:
                self.obstacle = f"held messages do not come from {self.messages.queue}"
            else:
                self.session.leave()
                self.session = None
        return taken
