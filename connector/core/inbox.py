"""The receiving half of a session: consumers and their deliveries."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from connector.core.acknowledgement import POLICIES
from connector.core.consumer import SessionConsumer
from connector.core.ledger import Delivery, Ledger
from connector.core.receiver import Receiver, Reference
from connector.core.session_owner import SessionOwner
from connector.core.takeover import try_take_over
from connector.core.transaction import SessionTransaction
from connector.errors import ClaimLost, ProviderError
from connector.messaging.access import MessageAccess
from connector.messaging.client import AcknowledgeMode
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.provider import SessionClient
from connector.messaging.roles import Recovering

_MAX_BODY: Final = 1 << 40


class Inbox:
    """Takes messages for the consumers of one session and settles them by the mode.

    For one thread at a time, which holds the lock of the session.

    Args:
        recovering: takes over from dead clients now and then. None = nobody takes over.
    """

    def __init__(
        self,
        connection: SessionClient,
        access: MessageAccess,
        mode: AcknowledgeMode,
        owner: SessionOwner,
        recovering: Recovering | None,
    ) -> None:
        self._connection = connection
        self._recovering = recovering
        self._access = access
        self._owner = owner
        self.ledger = Ledger(
            connection, apart=mode is AcknowledgeMode.INDIVIDUAL and owner.capabilities.transactions
        )
        self._policy = POLICIES[mode](self.ledger)
        self._transactions = 0
        self.transaction = self._begin() if mode is AcknowledgeMode.TRANSACTED else None
        self._consumers: list[SessionConsumer] = []
        self._closing: list[Poller] = []

    # -- consumers -----------------------------------------------------------------------------------

    def add(self, consumer: SessionConsumer) -> None:
        """Adds a consumer."""
        self._consumers.append(consumer)

    def listening(self) -> list[SessionConsumer]:
        """Returns the consumers that have listeners."""
        return [consumer for consumer in self._consumers if consumer.receiver is not None]

    def remove(self, consumer: SessionConsumer) -> None:
        """Removes a closed consumer. Closes the poller at once, or after the last message."""
        if consumer in self._consumers:
            self._consumers.remove(consumer)
            if consumer.ends_with_it and self.ledger.is_held(consumer.poller):
                self._closing.append(consumer.poller)
            else:
                consumer.poller.close()

    # -- taking --------------------------------------------------------------------------------------

    def claim(self, consumer: SessionConsumer, most: int) -> list[Delivery]:
        """Returns the next messages of a consumer, not yet read. Empty if no message waits.

        Raises:
            ProviderError: the provider failed.
        """
        if not self._owner.started:
            return []
        self._policy.on_idle()
        self.ledger.give_back_overdue()
        if self._recovering is not None and self._owner.is_takeover_due():
            try_take_over(self._recovering, at_start=False)
        return self.ledger.take(consumer.poller, most)

    def load(self, delivery: Delivery, max_body: int = _MAX_BODY) -> Message:
        """Reads a message. Raises the errors of :meth:`connector.messaging.access.MessageAccess.load`."""
        message = self._access.load(delivery.claim.reference, max_body)
        message.destination = str(delivery.claim.destination)
        return message

    def settle(self, deliveries: Sequence[Delivery]) -> None:
        """Settles deliveries together, each as its ``settlement`` says, whatever the mode.

        Raises:
            ClaimLost: another client has the only message.
            ProviderError: the provider failed. The deliveries stay open.
        """
        self.ledger.acknowledge(deliveries)
        self._close_settled()

    def take(self, consumer: SessionConsumer) -> tuple[Delivery, Message] | None:
        """Returns the next message of a consumer, not yet acknowledged, or None if no message waits.

        Raises:
            MalformedData: the message cannot be read, and counts as delivered.
            ProviderError: the provider failed. The message is not delivered and comes again.
        """
        if not self._owner.started:
            return None
        while taken := self.claim(consumer, 1):
            delivery = taken[0]
            if self.transaction is not None:
                self.transaction.acknowledge(delivery)
            try:
                return delivery, self.load(delivery)
            except LookupError:  # removed by hand between claim and read
                self.ledger.remove(delivery)
            except ProviderError:
                self._give_back_unseen(delivery)
                raise
        self._connection.check()
        return None

    def receive(self, consumer: SessionConsumer) -> tuple[Delivery, Message] | None:
        """Does the same as :meth:`take`, and acknowledges the message if the mode demands that now."""
        while (taken := self.take(consumer)) is not None:
            try:
                self._policy.on_delivery(taken[0])
            except ClaimLost:
                continue  # another client has taken over the message, so it must not be delivered
            except ProviderError:
                self._give_back_unseen(taken[0])
                raise
            return taken
        return None

    def wait(self, seconds: float) -> None:
        """Waits for messages, ``seconds`` at most. Raises ProviderError if the provider is gone."""
        if self._owner.started:
            self._connection.wait(seconds)
        else:
            time.sleep(seconds)

    # -- settling ------------------------------------------------------------------------------------

    def deliver(self, receiver: Receiver, delivery: Delivery, reference: Reference) -> None:
        """Hands a message to the receiver of a consumer, and settles by the mode.

        Raises:
            ProviderError: the message was neither acknowledged nor given back, and comes again.
            Exception: raised by the receiver. The message comes again with a higher delivery count.
        """
        try:
            receiver.handle(reference)
        except BaseException:
            self._refuse(delivery)
            raise
        try:
            self._policy.on_delivery(delivery)
        except ClaimLost:
            raise  # another client gives the message back
        except ProviderError:
            self.ledger.give_back_later(delivery)
            raise
        self._close_settled()

    def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledges a delivery for ``acknowledge()`` of the message, and raises the same errors."""
        self._policy.acknowledge(delivery)
        self._close_settled()

    def commit(self, transaction: SessionTransaction, may_begin: Callable[[], bool] | None) -> None:
        """Commits, and begins the next transaction. Raises as :meth:`SessionTransaction.commit`."""
        try:
            transaction.commit(may_begin)
        finally:
            if not transaction.is_open:
                self.transaction = self._begin()
        self._close_settled()

    def give_back(self) -> None:
        """Gives all unacknowledged messages back. Messages sent in a transaction are never delivered.

        Raises:
            ProviderError: the messages could not be given back. Nothing has changed.
        """
        if self.transaction is not None:
            self._roll_back(self.transaction)
        else:
            self.ledger.give_back(self.ledger.open())
        self._close_settled()

    def close(self) -> None:
        """Acknowledges the messages of a lazy mode, gives back the others, and ends all consumers.

        Raises:
            ProviderError: the provider failed. A takeover does the rest.
        """
        self._policy.on_close()
        self.give_back()
        self.ledger.give_back_overdue()
        for consumer in self._consumers:
            consumer.closed = True
            consumer.poller.close()

    def _refuse(self, delivery: Delivery) -> None:
        try:
            if self.transaction is not None:
                self._roll_back(self.transaction)
            else:
                self.ledger.give_back([delivery])
        except ProviderError:
            if self.transaction is None:
                self.ledger.give_back_later(delivery)
            raise

    def _roll_back(self, transaction: SessionTransaction) -> None:
        transaction.rollback()
        self.transaction = self._begin()

    def _begin(self) -> SessionTransaction:
        self._transactions += 1
        key = f"{self._connection.client_id}|{self._transactions}|"
        return SessionTransaction(self._access, self.ledger, key, gives_back=True)

    def _give_back_unseen(self, delivery: Delivery) -> None:
        delivery.begun = 0
        self.ledger.give_back_later(delivery)

    def _close_settled(self) -> None:
        if self._closing:
            for poller in [poller for poller in self._closing if not self.ledger.is_held(poller)]:
                self._closing.remove(poller)
                poller.close()
