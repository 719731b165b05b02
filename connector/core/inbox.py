"""The receiving half of a session: its consumers, and what they have delivered."""

from __future__ import annotations

import time
from typing import Any, Protocol

from connector.core.acknowledgement import POLICIES
from connector.core.consumer import SessionConsumer
from connector.core.ledger import Delivery, Ledger, load
from connector.core.takeover import try_take_over
from connector.core.transaction import Transaction
from connector.errors import ClaimLost, ProviderError
from connector.messaging.client import AcknowledgeMode, ReceivedMessage
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Capabilities, Connection, MessageAccess, Poller


class Owner(Protocol):
    """The connection that a session belongs to."""

    client_id: str

    @property
    def capabilities(self) -> Capabilities:
        """Of the provider."""

    @property
    def started(self) -> bool:
        """Whether messages are delivered now."""

    def report(self, error: Exception) -> None:
        """Tells the exception listener."""

    def is_takeover_due(self) -> bool:
        """Whether the session that asks is to look after dead clients, now."""

    def temporary(self, kind: str) -> Destination:
        """A new temporary destination of the connection."""

    def delete_temporary(self, destination: Destination) -> None:
        """Ends one; raises DestinationError."""

    def ended(self, session: Any, connection: Connection, *, broken: bool) -> None:
        """The session has ended, and with it the use of its provider connection.

        Args:
            broken: something of it is not settled: whoever takes over does that.
        """


class Inbox:
    """Takes messages for the consumers of one session and settles them as its mode says.

    For one thread at a time: whoever holds the lock of the session.
    """

    def __init__(
        self, connection: Connection, access: MessageAccess, mode: AcknowledgeMode, owner: Owner
    ) -> None:
        self._connection = connection
        self._access = access
        self._owner = owner
        self._ledger = Ledger(connection)
        self._policy = POLICIES[mode](self._ledger)
        self._transactions = 0
        self.transaction = self._begin() if mode is AcknowledgeMode.TRANSACTED else None
        self._consumers: list[SessionConsumer] = []
        self._retired: list[Poller] = []

    # -- consumers -----------------------------------------------------------------------------------

    def add(self, consumer: SessionConsumer) -> None:
        """A new consumer."""
        self._consumers.append(consumer)

    def listening(self) -> list[SessionConsumer]:
        """The consumers that have listeners."""
        return [consumer for consumer in self._consumers if consumer.listener is not None]

    def retire(self, consumer: SessionConsumer) -> None:
        """A consumer was closed: its poller too, at once, or when its last message is settled."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)
            if consumer.ends_with_it and self._ledger.is_held(consumer.poller):
                self._retired.append(consumer.poller)
            else:
                consumer.poller.close()

    # -- taking --------------------------------------------------------------------------------------

    def take(self, consumer: SessionConsumer) -> tuple[Delivery, Message] | None:
        """The next message of a consumer, not yet acknowledged; None where there is none now.

        Raises:
            MalformedData: it cannot be read; it counts as delivered.
            ProviderError: the provider failed; the message is not delivered and comes again.
        """
        if not self._owner.started:
            return None
        self._policy.idle()
        self._ledger.give_back_overdue()
        if self._owner.is_takeover_due():
            try_take_over(self._connection, at_start=False)
        while (delivery := self._ledger.take(consumer.poller, Delivery)) is not None:
            if self.transaction is not None:
                self.transaction.acknowledge(delivery)
            try:
                return delivery, load(self._access, delivery.claim)
            except LookupError:  # removed by hand between claim and read: there is nothing to deliver
                self._ledger.forget(delivery)
            except ProviderError:
                self._put_off_unseen(delivery)
                raise
        self._connection.check()
        return None

    def receive(self, consumer: SessionConsumer) -> tuple[Delivery, Message] | None:
        """As :meth:`take`, but acknowledged where the mode does that before a message is returned."""
        while (taken := self.take(consumer)) is not None:
            try:
                self._policy.delivered(taken[0])
            except ClaimLost:
                continue  # somebody has taken it over: it is not ours to deliver
            except ProviderError:
                self._put_off_unseen(taken[0])
                raise
            return taken
        return None

    def wait(self, seconds: float) -> None:
        """Waits for messages, ``seconds`` at most. Raises ProviderError where the provider is gone."""
        if self._owner.started:
            self._connection.wait(seconds)
        else:
            time.sleep(seconds)

    # -- settling ------------------------------------------------------------------------------------

    def listen(self, consumer: SessionConsumer, delivery: Delivery, message: ReceivedMessage) -> None:
        """Calls the listener of a consumer, and settles as the mode says.

        Raises:
            ProviderError: it was not acknowledged, or not given back, and comes again.
            Exception: the listener's own; the message comes again, its delivery count one more.
        """
        if consumer.listener is None:  # taken off meanwhile, by another listener
            self._put_off_unseen(delivery)
            return
        try:
            consumer.listener(message)
        except BaseException:
            self._refuse(delivery)
            raise
        try:
            self._policy.delivered(delivery)
        except ClaimLost:
            raise  # it comes again without our help
        except ProviderError:
            self._ledger.put_off(delivery)
            raise
        self._close_retired()

    def acknowledge(self, delivery: Delivery) -> None:
        """The program has called ``acknowledge()`` of its message; raises as that."""
        self._policy.acknowledge(delivery)
        self._close_retired()

    def commit(self, transaction: Transaction) -> None:
        """See :meth:`connector.messaging.client.Session.commit`."""
        try:
            transaction.commit()
        finally:
            if not transaction.is_open:
                self.transaction = self._begin()
        self._close_retired()

    def give_back(self) -> None:
        """Everything unacknowledged comes again, what was sent in a transaction never comes.

        Raises:
            ProviderError: it was not possible; all is as it was.
        """
        if self.transaction is not None:
            self._roll_back(self.transaction)
        else:
            self._ledger.give_back(self._ledger.open())
        self._close_retired()

    def close(self) -> None:
        """Acknowledges what a mode has put off, gives back the rest, and ends all consumers.

        Raises:
            ProviderError: it was not possible: whoever takes over does the rest.
        """
        self._policy.closing()
        self.give_back()
        self._ledger.give_back_overdue()
        for consumer in self._consumers:
            consumer.closed = True
            consumer.poller.close()

    def _refuse(self, delivery: Delivery) -> None:
        try:
            if self.transaction is not None:
                self._roll_back(self.transaction)
            else:
                self._ledger.give_back([delivery])
        except ProviderError:
            if self.transaction is None:
                self._ledger.put_off(delivery)
            raise

    def _roll_back(self, transaction: Transaction) -> None:
        transaction.rollback()
        self.transaction = self._begin()

    def _begin(self) -> Transaction:
        self._transactions += 1
        key = f"{self._connection.client_id}|{self._transactions}|"
        return Transaction(self._access, self._ledger, key, gives_back=True)

    def _put_off_unseen(self, delivery: Delivery) -> None:
        delivery.begun = 0
        self._ledger.put_off(delivery)

    def _close_retired(self) -> None:
        if self._retired:
            for poller in [poller for poller in self._retired if not self._ledger.is_held(poller)]:
                self._retired.remove(poller)
                poller.close()
