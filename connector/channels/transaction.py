"""Transactions over any channels of one process (JBoss Messaging Core, 2.2 and 6.2.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from connector.core.ledger import Delivery, DeliveryState
from connector.core.session import CoreSession
from connector.core.transaction import SessionTransaction
from connector.errors import SessionStateError
from connector.messaging.destination import Destination
from connector.messaging.message import Message

Sent = Sequence[tuple[Destination, Message]]


class ChannelTransaction(SessionTransaction):
    """A transaction over any channels of one process, for one thread (JBoss Messaging Core, 2.2 and 6.2.1).

    Messages sent in the transaction are NOT_COMMITTED: stored, but invisible. Acknowledgements are logged.
    Their messages stay DELIVERED, and are not delivered again meanwhile. A message belongs to one transaction
    only. A context manager, which commits at its end, or rolls back after an exception.

    Args:
        key: names the messages. No other transaction of the session has this key.
        on_commit: called with the sent messages, after the commit.
        on_end: called with this transaction.
    """

    def __init__(
        self,
        session: CoreSession,
        key: str,
        on_commit: Callable[[Sent], object],
        on_end: Callable[[ChannelTransaction], object],
    ) -> None:
        # an access of its own: no lock is held while a sender waits for room
        super().__init__(session.connection.access().open(), session.inbox.ledger, key, gives_back=False)
        self._lock = session.lock
        self._on_commit = on_commit
        self._on_end = on_end
        self.sent: list[tuple[Destination, Message]] = []
        """The NOT_COMMITTED messages, oldest first."""

    def send(self, destination: Destination, messages: list[Message]) -> list[str]:
        """Adds messages, all or none. Called by a channel.

        Raises:
            TransactionRolledBack: a message of the transaction has expired meanwhile (5.1.3).
            SessionStateError: the transaction has ended.
            ProviderError: the messages cannot be written.
        """
        self._check_open()
        with self._lock:
            self.check_expiry()
        ids = super().send(destination, messages)
        with self._lock:
            self.sent += [(destination, message) for message in messages]
        return ids

    def acknowledge(self, delivery: Delivery) -> None:
        """Adds an acknowledgement. Called by a channel that holds the lock of the session.

        Raises:
            TransactionRolledBack: a message of the transaction has expired meanwhile (5.1.3).
            SessionStateError: the transaction has ended.
        """
        self._check_open()
        self.check_expiry()
        if delivery not in self.deliveries:
            delivery.in_transactions += 1
            super().acknowledge(delivery)

    def commit(self, may_begin: Callable[[], bool] | None = None) -> None:
        """Commits, and attempts delivery of the new messages. Raises as :meth:`SessionTransaction.commit`.

        Raises:
            SessionStateError: the transaction has ended.
        """
        self._check_open()
        sent = self.sent
        with self._lock:
            for delivery in self.deliveries:
                if delivery.state is DeliveryState.RETURNED:
                    self.undo(f"{delivery.claim.message_id}, acknowledged in it, came again meanwhile")
            super().commit(may_begin)
        self._on_commit(sent)

    def rollback(self) -> None:
        """Rolls back. Raises as :meth:`SessionTransaction.rollback`.

        Raises:
            SessionStateError: the transaction has ended.
        """
        self._check_open()
        with self._lock:
            super().rollback()

    def __enter__(self) -> ChannelTransaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self.is_open:
            return
        if kind is not None:
            self.rollback()
            return
        try:
            self.commit()
        except BaseException:
            if self.is_open:
                self.rollback()
            raise

    def _check_open(self) -> None:
        if not self.is_open:
            raise SessionStateError("the transaction has ended; begin another")

    def end(self) -> None:
        super().end()
        for delivery in self.deliveries:
            delivery.in_transactions -= 1
        self.sent = []
        self._on_end(self)
