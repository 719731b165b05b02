"""A transacted session that receives from one source: at most one open transaction."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from connector.core.remote.access import unpack
from connector.core.remote.broker import BrokerConnection, BrokerSession, Received, Receiver
from connector.core.remote.claims import (
    ORIGINAL_EXPIRATION,
    ORIGINAL_ID,
    ORIGINAL_TIME,
    LentClaim,
    original,
)
from connector.core.remote.commits import CommitMarker
from connector.errors import ProviderError, SettlementError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import HISTORY, Prepared, Settlement
from connector.messaging.subscription import TopicSubscription

_log: Final = logging.getLogger("connector.core")

_SECOND_LOOK: Final = 0.1
"""Seconds of the second look. A broker may call a queue empty although a message is on its way."""


class ReceivingSession:
    """Receives messages as claims, and settles all claims of its open transaction together.

    For one thread at a time.

    Args:
        connection: to the broker.
        source: a queue or a subscription.
        selector: text, for a queue.
        limit: bytes of a body. A larger body is not read.
        batch_bytes: bytes of all bodies after which a transaction gets no more messages.
        marker: makes the marker of the commits of a session. None = commits are not marked.

    Raises:
        ProviderError, SelectorError, SubscriptionError, UnknownDestination: see
            :meth:`connector.core.remote.broker.BrokerSession.receiver`.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        source: Destination | TopicSubscription,
        selector: str,
        *,
        limit: int,
        batch_bytes: int,
        marker: Callable[[BrokerSession], CommitMarker] | None = None,
    ) -> None:
        self.destination = source if isinstance(source, Destination) else source.topic
        self._batch_bytes = batch_bytes
        self._session: BrokerSession = connection.session()
        try:
            self._receiver: Receiver = self._session.receiver(source, selector, limit)
        except BaseException:
            self._session.close()
            raise
        self._marker = None if marker is None else marker(self._session)
        self.claims: list[LentClaim] = []
        """The claims of the open transaction."""
        self._bytes = 0
        self._early: list[Received] = []
        """Messages that :meth:`listen` has received, for the next claim."""
        self._lock = threading.Lock()
        self._listens_since = 0.0

    @property
    def cycle(self) -> int | None:
        """The cycle of the open transaction. None = there is none."""
        return self.claims[0].cycle if self.claims else None

    def claim(self, client_id: str, cycle: int, numbers: range) -> list[LentClaim]:
        """Receives up to ``len(numbers)`` messages into the open transaction.

        Raises:
            ProviderError: the broker failed before the first message.
        """
        if not self._lock.acquire(blocking=False):
            if time.monotonic() - self._listens_since >= _SECOND_LOOK:
                return []  # a thread looks, and has found nothing for long enough
            self._lock.acquire()
        try:
            return self._claim(client_id, cycle, numbers)
        finally:
            self._lock.release()

    def _claim(self, client_id: str, cycle: int, numbers: range) -> list[LentClaim]:
        taken: list[LentClaim] = []
        for sequence in numbers:
            if self._bytes >= self._batch_bytes:
                break
            try:
                received = self._next()
            except ProviderError:
                if taken:
                    break
                raise
            if received is None:
                break
            original(received.message)
            claim = LentClaim(client_id, (cycle, sequence), self.destination, received)
            self._bytes += len(received.message.body)
            self.claims.append(claim)
            taken.append(claim)
        return taken

    def _next(self) -> Received | None:
        if self._early:
            return self._early.pop(0)
        received = self._receiver.receive(0.0)
        if received is None and not self.claims:
            received = self._receiver.receive(_SECOND_LOOK)
        return received

    def listen(self) -> bool:
        """Waits shortly for a message, in another thread than the claims. Returns whether one has come.

        Raises:
            ProviderError: the broker failed.
        """
        with self._lock:
            if self._early or self.claims:
                return bool(self._early)
            if not self._listens_since:
                self._listens_since = time.monotonic()
            received = self._receiver.receive(_SECOND_LOOK)
            if received is not None:
                self._early.append(received)
                self._listens_since = 0.0
            return received is not None

    def settle(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        """Settles all claims of the transaction, and sends the messages of the settlements with them.

        Raises:
            SettlementError: a destination refuses a message. The transaction is rolled back.
            TransactionRolledBack: the broker has rolled the transaction back.
            CommitUnknown: the commit may have happened.
        """
        try:
            for prepared in (*sends, *(one for settlement in settlements for one in settlement.sends)):
                self._session.send(prepared.destination, unpack(prepared.handle))
            for settlement in settlements:
                if settlement.copy_to is not None:
                    self._session.send(settlement.copy_to, _copy(settlement))
            if self._marker is not None and self.cycle is not None:
                self._marker.mark(self.cycle)
        except ProviderError as error:
            self.rollback()
            raise SettlementError(f"nothing was settled: {error}") from error
        self._forget()
        try:
            self._session.commit()
        except TransactionRolledBack as error:
            raise SettlementError(f"nothing was settled: {error}") from error

    def rollback(self) -> None:
        """Gives all claims of the transaction back.

        Raises:
            ProviderError: the connection has ended, which gives them back, too.
        """
        self._forget()
        self._session.rollback()

    def _forget(self) -> None:
        self.claims = []
        self._early = []
        self._bytes = 0
        self._listens_since = 0.0

    def close(self) -> None:
        """Ends the session. The claims of an open transaction come again. Repeatable, never raises."""
        is_idle = not (self.claims or self._early)
        self._forget()
        try:
            self._receiver.close()
            if self._marker is not None and is_idle:
                self._marker.close()
        except ProviderError as error:
            _log.debug("closing a receiver failed", extra={"reason": str(error)})
        self._session.close()


def _copy(settlement: Settlement) -> Message:
    """Returns the copy of a claimed message. The copy does not expire, and says what the broker changes."""
    reference = settlement.claim.reference
    message: Message = reference.message
    copy = message.copy(message.body)
    for name in HISTORY:
        copy.properties.pop(name, None)
        copy.property_types.pop(name, None)
    for name, value in settlement.properties.items():
        copy.set_property(name, value)
    copy.set_property(ORIGINAL_ID, message.message_id or "")
    copy.set_property(ORIGINAL_TIME, message.timestamp, "long")
    copy.set_property(ORIGINAL_EXPIRATION, message.expiration, "long")
    copy.expiration = 0
    return copy
