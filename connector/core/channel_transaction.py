"""Sends to channels and acknowledgements of theirs, all or none (seed 001, 2.2, 5.1 and 6.2.1)."""

from __future__ import annotations

from typing import Final, NoReturn

from connector.core.channel_deliveries import Deliveries, Delivery, Fate
from connector.core.channel_store import ChannelStore, NotCommitted
from connector.errors import (
    ClaimLost,
    ProviderError,
    SessionStateError,
    SettlementError,
    TransactionRolledBack,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message


class ChannelTransaction:
    """One transaction over any channels of one process. For one thread; ends with commit or rollback.

    Messages sent in it are NOT_COMMITTED: they are stored, and nobody sees them. Acknowledgements in it are
    logged: their messages stay DELIVERED, and are not delivered again meanwhile. A message belongs to one
    transaction only. A context manager: leaving it commits, or rolls back when an exception is on its way.
    """

    def __init__(self, store: ChannelStore) -> None:
        self._store: Final = store
        self._sent: list[NotCommitted] = []
        self._logged: list[tuple[Deliveries, Delivery]] = []
        self.is_open = True

    def send(self, destination: Destination, message: Message) -> None:
        """Adds a message; a channel does it.

        Raises:
            TransactionRolledBack: a message of it has expired meanwhile (5.1.3).
            SessionStateError: it has ended.
            ProviderError: the message cannot be written.
        """
        self._check()
        self._sent.append(self._store.prepare(destination, message))

    def acknowledge(self, deliveries: Deliveries, delivery: Delivery) -> None:
        """Logs an acknowledgement; a channel does it, under the lock of the store.

        Raises:
            TransactionRolledBack: a message of it has expired meanwhile (5.1.3).
            SessionStateError: it has ended.
        """
        self._check()
        if not any(delivery is logged for _, logged in self._logged):
            delivery.logged += 1
            self._logged.append((deliveries, delivery))

    def commit(self) -> None:
        """Sends what was sent and applies what was acknowledged; then delivery of the new is attempted.

        Raises:
            TransactionRolledBack: a message sent in it has expired or cannot be made durable, or one
                acknowledged in it is not ours any more; all was undone.
            SessionStateError: it has ended.
            SettlementError: nothing has happened; it may be tried again.
            ProviderError: it is committed, but not finished; recovery does that.
        """
        self._check()
        if self._sent:
            try:
                self._store.sync()
            except ProviderError as error:  # what was not written is not written by asking again
                self._undo(str(error))
        with self._store.lock:
            lost = [delivery for _, delivery in self._logged if delivery.fate is Fate.LOST]
            if lost:
                self._undo(f"{lost[0].reference.message_id}, acknowledged in it, came again meanwhile")
            final = [pair for pair in self._logged if pair[1].fate is Fate.HELD and not pair[1].handling]
            try:
                self._store.commit((delivery.claim for _, delivery in final), self._sent)
            except ClaimLost as error:
                self._undo(str(error))
            except SettlementError:
                raise
            except ProviderError:
                self._apply(final)
                raise
            sent = self._sent
            self._apply(final)
        for destination in {message.destination: None for message in sent}:
            self._store.new_in(destination)

    def _apply(self, final: list[tuple[Deliveries, Delivery]]) -> None:
        for deliveries, delivery in final:
            deliveries.end(delivery, Fate.ACKNOWLEDGED)
        for _, delivery in self._logged:
            delivery.positive = True  # of one being handled: applied when its receiver returns (5.3.4)
        self._end()

    def rollback(self) -> None:
        """Drops what was sent and what was logged: the messages acknowledged in it stay DELIVERED.

        Raises:
            SessionStateError: it has ended.
            ProviderError: the messages sent cannot be removed now.
        """
        self._check_open()
        with self._store.lock:
            self._store.discard(self._sent)
            self._end()

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

    def _check(self) -> None:
        """Whether it can go on."""
        self._check_open()
        for sent in self._sent:
            if sent.message.has_expired():
                self._undo(f"{sent.message.message_id}, sent to {sent.destination} in it, has expired")

    def _check_open(self) -> None:
        if not self.is_open:
            raise SessionStateError("the transaction has ended; begin another")

    def _undo(self, why: str) -> NoReturn:
        self.rollback()
        raise TransactionRolledBack(f"the transaction was rolled back: {why}; do it again")

    def _end(self) -> None:
        self.is_open = False
        self._sent = []
        for _, delivery in self._logged:
            delivery.logged -= 1
        self._logged = []
