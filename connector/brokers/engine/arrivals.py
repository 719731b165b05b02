"""The messages that a broker pushes to a client, as claims of one transaction."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Final

from connector.brokers.engine.broker import BrokerConnection, BrokerReceiver, BrokerSession, Received
from connector.brokers.engine.claims import LentClaim
from connector.brokers.engine.copies import copy_of
from connector.brokers.engine.probe import refusal_of
from connector.brokers.engine.silence import BrokerSilent
from connector.errors import ConnectorError, ProviderError, SubscriptionError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Arrivals
from connector.messaging.settlement import Settlement

_LOOK: Final = 0.005
"""Seconds between two looks for messages that are not pushed."""
_FETCHED: Final = -1.0


class RemoteArrivals(Arrivals):
    """Arrivals in a session of a broker. They end with the connection.

    A number that takes one message at a time has a receiver in a second session. The first session would take
    all messages that the selector matches.

    Args:
        limit: bytes of a body. A larger body is not read.

    Raises:
        ProviderError: a session cannot be made.
    """

    def __init__(self, connection: BrokerConnection, client_id: str, limit: int) -> None:
        self._connection = connection
        self._client_id = client_id
        self._limit = limit
        self._pushing = _Transaction(connection)
        self._pushed = self._pushing.session.arrivals(limit)
        self._pulling: _Transaction | None = None
        self._receivers: dict[int, BrokerReceiver] = {}
        """The receivers that take one message at a time."""
        self._served: set[int] = set()
        """Numbers whose one message was taken and not yet settled."""
        self._queues: dict[int, Destination] = {}
        self._leaving: list[int] = []
        """Numbers that receive no more. A message of theirs may have arrived before."""
        self._cycle = 0
        self._taken = 0
        self._single = 0

    def add(self, queue: Destination, selector: str = "", *, one: bool = False) -> int:
        try:
            return self._add(queue, selector, one=one)
        except BrokerSilent:
            raise
        except ProviderError as error:
            if self._connection.failure is not None:
                raise
            raise SubscriptionError(str(error)) from error

    def _add(self, queue: Destination, selector: str, *, one: bool) -> int:
        if one:
            pulling = self._pulling = self._pulling or _Transaction(self._connection)
            receiver = pulling.session.receiver(queue, selector, self._limit)
            self._single -= 1
            number = self._single
            self._receivers[number] = receiver
        else:
            number = self._pushed.add(queue, selector)
        self._queues[number] = queue
        return number

    def remove(self, number: int) -> None:
        receiver = self._receivers.pop(number, None)
        if receiver is not None:
            del self._queues[number]
            self._served.discard(number)
            with contextlib.suppress(ProviderError):
                receiver.close()
        elif number in self._queues:
            self._pushed.remove(number)
            self._leaving.append(number)

    def take(self, seconds: float, most: int) -> list[tuple[int, LentClaim]]:
        taken = self._pull(most)
        deadline = time.monotonic() + seconds
        while True:
            left = 0.0 if taken else max(0.0, deadline - time.monotonic())
            leaving = len(self._leaving)
            wait = min(left, _LOOK) if len(self._receivers) > len(self._served) else left
            pushed = self._pushed.take(wait, most - len(taken)) if most > len(taken) else []
            if pushed is None:  # woken
                return taken
            taken += [(number, self._claim(self._pushing, number, received)) for number, received in pushed]
            if not pushed:
                for number in self._leaving[:leaving]:
                    self._queues.pop(number, None)
                del self._leaving[:leaving]
            taken += self._pull(most - len(taken))
            if taken or left <= 0:
                return taken

    def _pull(self, most: int) -> list[tuple[int, LentClaim]]:
        """Looks once for the messages that are not pushed."""
        taken: list[tuple[int, LentClaim]] = []
        for number, receiver in self._receivers.items():
            if len(taken) < most and number not in self._served:
                for received in receiver.receive(_FETCHED):
                    assert self._pulling is not None
                    taken.append((number, self._claim(self._pulling, number, received)))
                    self._served.add(number)
        return taken

    def _claim(self, transaction: _Transaction, number: int, received: Received) -> LentClaim:
        self._taken += 1
        claim = LentClaim(self._client_id, (self._cycle, self._taken), self._queues[number], received)
        transaction.claims.append(claim)
        return claim

    def settle(self, settlements: Sequence[Settlement]) -> None:
        self._cycle += 1
        self._taken = 0
        self._served.clear()
        for transaction in filter(None, (self._pulling, self._pushing)):
            transaction.settle(settlements)

    def wake(self) -> None:
        self._pushed.wake()


class _Transaction:
    """A session with the claims of its open transaction."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self.session: BrokerSession = connection.session()
        self.claims: list[LentClaim] = []

    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Commits, with the copies of those settlements that are of this transaction."""
        ours, self.claims = self.claims, []
        if not ours:
            return
        identities = {id(claim) for claim in ours}
        try:
            for settlement in settlements:
                if settlement.copy_to is not None and id(settlement.claim) in identities:
                    copied: Message = settlement.claim.reference.message
                    self.session.post(settlement.copy_to, copy_of(settlement), copied=copied)
        except (ConnectorError, ValueError) as error:
            with contextlib.suppress(ProviderError):
                self.session.rollback()
            raise refusal_of(self._connection, error) from error
        try:
            self.session.commit()
        except TransactionRolledBack as error:
            raise refusal_of(self._connection, error) from error
