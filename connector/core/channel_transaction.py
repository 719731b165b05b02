"""Sends to channels and acknowledgements of theirs, all or none (seed 001, 2.2, 5.1 and 6.2.1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from connector.core.channel_deliveries import Deliveries, Delivery, Fate
from connector.core.channel_store import ChannelStore
from connector.errors import ClaimLost, SessionStateError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Prepared


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    prepared: Prepared
    destination: Destination
    message: Message


class ChannelTransaction:
    """One transaction over any channels of one process. For one thread; ends with commit or rollback.

    Messages sent in it are NOT_COMMITTED: they are stored, and nobody sees them. Acknowledgements in it are
    logged: their messages stay DELIVERED, and are not delivered again meanwhile. A message belongs to one
    transaction only. A context manager: leaving it commits, or rolls back when an exception is on its way.
    """

    def __init__(self, store: ChannelStore) -> None:
        self._store: Final = store
        self._sent: list[_Sent] = []
        self._logged: list[tuple[Deliveries, Delivery]] = []
        self._deliver: dict[Destination, Callable[[], None]] = {}
        self.is_open = True

    def not_committed(self, destination: Destination) -> list[Message]:
        """What is sent to a channel in it, in that order."""
        return [sent.message for sent in self._sent if sent.destination == destination]

    def send(self, destination: Destination, message: Message, deliver: Callable[[], None]) -> None:
        """Adds a message; a channel does it. ``deliver`` is called after the commit.

        Raises:
            TransactionRolledBack: a message of it has expired meanwhile (5.1.3).
            SessionStateError: it has ended.
            ProviderError: the message cannot be written.
        """
        self._check()
        prepared = self._store.prepare(destination, message)
        self._sent.append(_Sent(prepared, destination, message))
        self._deliver[destination] = deliver

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
            TransactionRolledBack: a message sent in it has expired, or one acknowledged in it is not ours any
                more; all was undone.
            SessionStateError: it has ended.
            ProviderError: nothing has happened, it may be tried again; or, after the commit point, recovery
                finishes it.
        """
        self._check()
        if self._sent:
            self._store.sync()
        with self._store.lock:
            lost = [delivery for _, delivery in self._logged if delivery.fate is Fate.LOST]
            if lost:
                self._undo(f"{lost[0].reference.message_id}, acknowledged in it, came again meanwhile")
            final = [pair for pair in self._logged if pair[1].fate is Fate.HELD and not pair[1].handling]
            try:
                self._store.commit(
                    [delivery.claim for _, delivery in final], [sent.prepared for sent in self._sent]
                )
            except TransactionRolledBack:
                self._sent = []  # the provider has dropped them
                self._end()
                raise
            except ClaimLost as error:
                self._undo(str(error))
            for deliveries, delivery in final:
                deliveries.end(delivery, Fate.ACKNOWLEDGED)
            for _, delivery in self._logged:
                delivery.positive = True  # of one being handled: applied when its receiver returns (5.3.4)
            self._sent = []
            self._end()
        for deliver in self._deliver.values():
            deliver()

    def rollback(self) -> None:
        """Drops what was sent and what was logged: the messages acknowledged in it stay DELIVERED.

        Raises:
            SessionStateError: it has ended.
            ProviderError: the messages sent cannot be removed now.
        """
        self._check_open()
        with self._store.lock:
            if self._sent:
                self._store.discard([sent.prepared for sent in self._sent])
            self._sent = []
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
        now = time.time_ns() // 1_000_000
        for sent in self._sent:
            if 0 < sent.message.expiration <= now:
                self._undo(f"{sent.message.message_id}, sent to {sent.destination} in it, has expired")

    def _check_open(self) -> None:
        if not self.is_open:
            raise SessionStateError("the transaction has ended; begin another")

    def _undo(self, why: str) -> NoReturn:
        self.rollback()
        raise TransactionRolledBack(f"the transaction was rolled back: {why}; do it again")

    def _end(self) -> None:
        self.is_open = False
        for _, delivery in self._logged:
            delivery.logged -= 1
        self._logged = []
