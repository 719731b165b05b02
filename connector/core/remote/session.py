"""A transacted session that receives from one source: at most one open transaction."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from connector import faults
from connector.core.remote.access import sendable, unpack
from connector.core.remote.broker import BrokerConnection, BrokerSession, CommitUnknown, Received, Receiver
from connector.core.remote.claims import LentClaim, keep_original
from connector.core.remote.commits import CommitMarker
from connector.errors import ConnectorError, ProviderError, SettlementError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import HISTORY, Prepared, Settlement
from connector.messaging.subscription import TopicSubscription

_log: Final = logging.getLogger("connector.core")

_CLOSE_SECONDS: Final = 10.0

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
        batch: messages of a transaction, at most.
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
        batch: int,
        batch_bytes: int,
        marker: Callable[[BrokerSession], CommitMarker] | None = None,
    ) -> None:
        self.destination = source if isinstance(source, Destination) else source.topic
        self._batch = batch
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
        """Held while the session is used, because any thread may close the session."""
        self._closed = False
        self._leaves = False
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
            self._check()
            return self._claim(client_id, cycle, numbers)
        finally:
            self._lock.release()

    def _check(self) -> None:
        if self._closed:
            raise ProviderError(f"the session of {self.destination} is closed")

    @property
    def is_full(self) -> bool:
        """Whether the open transaction holds as many messages or bytes as it may."""
        return len(self.claims) >= self._batch or self._bytes >= self._batch_bytes

    def _claim(self, client_id: str, cycle: int, numbers: range) -> list[LentClaim]:
        taken: list[LentClaim] = []
        for sequence in numbers:
            if self.is_full:
                break
            try:
                received = self._next()
            except ProviderError:
                if taken:
                    break
                raise
            if received is None:
                break
            faults.point("claim")
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

        Args:
            settlements: of all claims.
            sends: further messages.

        Raises:
            SettlementError: a destination refuses a message. The transaction is rolled back.
            TransactionRolledBack: the broker has rolled the transaction back.
            CommitUnknown: the commit may have happened.
        """
        with self._lock:
            self._check()
            try:
                self._send(settlements, sends)
            except (ConnectorError, ValueError) as error:
                self._roll_back()
                raise SettlementError(f"nothing was settled: {error}") from error
            self._forget()
            faults.point("settle.committing")
            try:
                self._session.commit()
            except TransactionRolledBack as error:
                raise SettlementError(f"nothing was settled: {error}") from error
            except CommitUnknown:
                self._marker = None  # the mark in the queue tells whether the commit has happened
                raise
            faults.point("settle.finished")
        self._close_if_left()

    def _send(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        """Adds the messages of a settlement to the transaction."""
        for prepared in (*sends, *(one for settlement in settlements for one in settlement.sends)):
            self._session.send(prepared.destination, unpack(prepared.handle))
        for settlement in settlements:
            if settlement.copy_to is not None:
                self._session.send(settlement.copy_to, copy_of(settlement))
        if self._marker is not None and self.cycle is not None:
            self._marker.mark(self.cycle)

    def rollback(self) -> None:
        """Gives all claims of the transaction back.

        Raises:
            ProviderError: the connection has ended, which gives them back, too.
        """
        with self._lock:
            self._roll_back()
        self._close_if_left()

    def _roll_back(self) -> None:
        self._forget()
        self._session.rollback()

    def _close_if_left(self) -> None:
        if self._leaves:
            self.close()

    def _forget(self) -> None:
        self.claims = []
        self._early = []
        self._bytes = 0
        self._listens_since = 0.0

    def leave(self) -> None:
        """Receives no more. Ends the session, at once or at the end of its open transaction. Never raises."""
        if not self.claims:
            self.close()
            return
        self._leaves = True
        with contextlib.suppress(ProviderError):
            self._receiver.close()

    def close(self, *, keeps_mark: bool = False) -> None:
        """Ends the session. The claims of an open transaction come again. For any thread.

        Waits for a settlement in another thread. Repeatable, never raises.

        Args:
            keeps_mark: leaves the mark of the last commit to the client that takes over.
        """
        has_lock = self._lock.acquire(timeout=_CLOSE_SECONDS)
        try:
            if self._closed:
                return
            self._closed = True
            try:
                self._receiver.close()
                if self._marker is not None and has_lock and not keeps_mark:
                    self._roll_back()
                    self._marker.close()
            except ProviderError as error:
                _log.debug("closing a receiver failed", extra={"reason": str(error)})
            self._session.close()
        finally:
            if has_lock:
                self._lock.release()


def copy_of(settlement: Settlement) -> Message:
    """Returns the copy of a claimed message. The copy does not expire, and says what the broker changes."""
    reference = settlement.claim.reference
    message: Message = reference.message
    copy = sendable(message)
    for name in HISTORY:
        copy.properties.pop(name, None)
        copy.property_types.pop(name, None)
    for name, value in settlement.properties.items():
        copy.set_property(name, value)
    keep_original(copy, message)
    copy.expiration = 0
    return copy
