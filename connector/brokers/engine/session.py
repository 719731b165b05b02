"""A transacted session that receives from one source: at most one open transaction."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from connector import faults
from connector.brokers.engine.access import post_prepared
from connector.brokers.engine.broker import (
    BrokerConnection,
    BrokerReceiver,
    BrokerSession,
    CommitUnknown,
    Received,
    UnreadableMessage,
)
from connector.brokers.engine.claims import LentClaim, input_name
from connector.brokers.engine.commits import CommitMarker
from connector.brokers.engine.copies import copy_of
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.news import ReceiverNews
from connector.brokers.engine.probe import refusal_of
from connector.brokers.engine.silence import CLOSE, BrokerSilent
from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.errors import ConnectorError, ProviderError, TransactionRolledBack
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared, Settlement
from connector.messaging.subscription import TopicSubscription

_log: Final = logging.getLogger("connector.core")

_FIRST_LOOK: Final = 0.002
"""Seconds of the first look. A message may be on its way to the client library."""

_MOST_PARKED: Final = 20
"""Messages of one source that nobody can read, and that others pass."""

_SECOND_LOOK: Final = 0.1
"""Seconds of the second look. A broker may call a queue empty although a message is on its way."""

_LONG_LOOK: Final = 1.0
"""Seconds of a look beside the claims, while nothing comes."""

_FETCHED: Final = -1.0
"""A look at what the client library has fetched."""

_NEXT_LOOK: Final = 0.001
"""The same beside messages that have come. The client library may have asked for more."""

_SHORT_LOOK: Final = 0.02
"""Seconds of the only look while events of the same source run. Their end waits for the look."""


class SessionSource(NamedTuple):
    """Where a session receives messages.

    Args:
        selector: text, for a queue.
        input: the input that gets the messages: ``queue`` itself, or ``queue`` holds messages of the input.
    """

    queue: Destination | TopicSubscription
    selector: str
    input: Destination | TopicSubscription


class LendingSession:
    """Receives messages as claims, and settles all claims of its open transaction together.

    For one thread at a time.

    Args:
        marker: makes the marker of the commits of a session, or None if commits are not marked.
        parks: whether a message that nobody can read is passed. Otherwise it is an error.
        later: makes the copies of messages that come again later. None = this client is no adapter.
        news: of the connection. None = nobody waits for messages.

    Raises:
        ProviderError, SelectorError, SubscriptionError, UnknownDestination: see
            :meth:`connector.brokers.engine.broker.BrokerSession.receiver`.
    """

    number = 0
    """Of the receiver among the news. 0 = the client library tells nothing."""
    claims: list[LentClaim]
    """The claims of the open transaction."""
    _early: list[Received]
    """Messages that :meth:`listen` has received, for the next claim."""
    _bytes: int
    _spoilt: str
    """Why the open transaction can only be rolled back. Empty = it can be committed."""
    _empty_since: float
    """When the source was found empty first. 0 = it gave a message since."""
    _takes_rest = True
    _is_patient = True
    _leaves = False
    _closed = False

    def __init__(
        self,
        connection: BrokerConnection,
        source: SessionSource,
        limits: TransactionLimits,
        marker: Callable[[BrokerSession], CommitMarker | None],
        *,
        parks: bool = True,
        later: LaterMessages | None = None,
        news: ReceiverNews | None = None,
    ) -> None:
        self._connection = connection
        self._source = source
        self._limits = limits
        self._make_marker = marker
        self._most_parked = _MOST_PARKED if parks else 0
        self._later = later
        self._news = news
        self.is_held = source.queue is not source.input
        """Whether this session receives held messages."""
        self.asks = self.is_held
        """Whether a claim that finds nothing asks the broker."""
        self._parked: list[tuple[BrokerSession, CommitMarker | None]] = []
        """Sessions whose open transaction is a message that nobody can read. They end with this session."""
        self._most = limits.batch
        """Messages of the next transaction, at most: one after a message that could not be received."""
        self._lock = threading.Lock()
        """Held while the session is used, because any thread may close the session."""
        self._forget()
        self._open()

    @property
    def input_name(self) -> str:
        """The name of the input that gets the messages."""
        return input_name(self._source.input)

    @property
    def destination(self) -> Destination:
        """The queue of the input, or the topic of its subscription."""
        wanted = self._source.input
        return wanted if isinstance(wanted, Destination) else wanted.topic

    @property
    def _subscription(self) -> str:
        wanted = self._source.input
        return "" if isinstance(wanted, Destination) else wanted.name

    def _open(self) -> None:
        session: BrokerSession = self._connection.session()
        try:
            self._receiver: BrokerReceiver = session.receiver(
                self._source.queue, self._source.selector, self._limits.max_body
            )
            self._marker = self._make_marker(session)
            if self._news is not None:
                self._news.forget(self.number)
                self.number = self._news.watch(self._receiver)
        except BaseException:
            session.close()
            raise
        self._session = session

    def _expect_more(self) -> None:
        """Notes that messages may have come. The client library tells only of further ones."""
        if self._news is not None:
            self._news.add(self.number)

    @property
    def cycle(self) -> int | None:
        """The cycle of the open transaction. None = there is none."""
        return self.claims[0].cycle if self.claims else None

    @property
    def is_free(self) -> bool:
        """Whether a transaction may begin. The next commit removes the mark of the one before."""
        return not self.claims and (self._marker is None or not self._marker.is_needed)

    def claim(
        self, client_id: str, cycle: int, numbers: range, *, is_patient: bool = True
    ) -> list[LentClaim]:
        """Receives up to ``len(numbers)`` messages into the open transaction.

        Args:
            is_patient: whether the first message may take its time.

        Raises:
            ProviderError: the broker failed before the first message.
        """
        if not self._lock.acquire(blocking=False):
            if not self.asks and self._empty_since and time.monotonic() - self._empty_since >= _SECOND_LOOK:
                return []  # a thread looks, and has found nothing for long enough
            self._lock.acquire()
        try:
            self._check()
            self._is_patient = is_patient
            return self._claim(client_id, cycle, numbers)
        finally:
            self._lock.release()

    def _check(self) -> None:
        if self._closed or (self._leaves and not self.claims):
            raise ProviderError(f"the session of {self.destination} is closed")

    @property
    def is_full(self) -> bool:
        """Whether the open transaction gets no more messages."""
        return bool(self._spoilt) or len(self.claims) >= self._most or self._bytes >= self._limits.batch_bytes

    def _claim(self, client_id: str, cycle: int, numbers: range) -> list[LentClaim]:
        taken: list[LentClaim] = []
        for sequence, received in zip(numbers, self._receive(len(numbers)), strict=False):
            faults.point("claim")
            taken.append(self._new_claim(client_id, (cycle, sequence), received))
        return taken

    def _new_claim(self, client_id: str, number: tuple[int, int], received: Received) -> LentClaim:
        claim = LentClaim(
            client_id, number, self.destination, received, self._subscription, is_held=self.is_held
        )
        self._bytes += len(received.message.body)
        self.claims.append(claim)
        return claim

    def take_rest(self) -> bool:
        """Adds messages that wait to the open transaction, beyond its limits.

        From a queue of held messages: all of them. From a source: what the client library may have fetched,
        because some brokers count a delivery of each fetched message.

        Returns False if one of them cannot be received. Then the transaction can only be rolled back, and the
        next call of this session adds nothing.
        """
        with self._lock:
            last = self.claims[-1]
            seconds = _SECOND_LOOK if self.is_held else _FETCHED
            try:
                while self._takes_rest:
                    self._check()
                    found = self._early + self._receiver.receive(seconds, self._limits.batch)
                    self._early = []
                    for received in found:
                        self._new_claim(str(last.reference), (last.cycle, len(self.claims)), received)
                    if not found or not self.is_held:
                        break
            except ProviderError as error:
                self._spoilt, self._takes_rest = str(error), False
                return False
            self._takes_rest = True
            return True

    def _receive(self, most: int) -> list[Received]:
        """Receives messages for claims."""
        while most and not self.is_full:
            try:
                return self._look(most)
            except ProviderError as error:
                tried = 1 if isinstance(error, BrokerSilent) else self._most
                is_alone = tried == 1 and not self.claims
                if is_alone and isinstance(error, UnreadableMessage) and self._park(error):
                    continue
                self._undo_receive(error)
                if tried == 1:
                    raise
        return []

    def _park(self, error: UnreadableMessage) -> bool:
        """Leaves a message that nobody can read in an open transaction, and goes on behind it.

        After a rollback the broker would give the same message first, and count a delivery. Returns False if
        there are too many such messages.

        Raises:
            ProviderError: the broker failed.
        """
        if len(self._parked) >= self._most_parked:
            return False
        _log.error(
            "a message that cannot be read stays in its queue",
            extra={"destination": str(self.destination), "reason": str(error)},
        )
        with contextlib.suppress(ProviderError):
            self._receiver.close()  # gives back what the client library has fetched
        self._parked.append((self._session, self._marker))
        self._open()
        return True

    def _undo_receive(self, error: ProviderError) -> None:
        """Gives back what a failed receive has taken, and goes on with one message a transaction.

        So the messages before one that the client library cannot read are settled, each for itself.
        """
        self._most = 1
        if self.claims:
            self._spoilt = str(error)
            return
        try:
            self._roll_back()
        except ProviderError:
            raise error from None

    def _look(self, most: int) -> list[Received]:
        most = min(most, self._most - len(self.claims))
        found, self._early = self._early, []
        is_told = self._news is not None and not self._news.begin(self.number)
        room = self._limits.batch_bytes - self._bytes - sum(len(one.message.body) for one in found)
        if len(found) < most and room > 0:
            seconds = _FIRST_LOOK if self._is_patient else _SHORT_LOOK
            if is_told and self._empty_since:
                seconds = _FETCHED
            elif found or self.claims:
                seconds = _NEXT_LOOK
            found += self._receiver.receive(seconds, most - len(found), room)
        if not found and not self.claims and self._is_patient:
            now = time.monotonic()
            self._empty_since = self._empty_since or now
            wait = self._empty_since + _SECOND_LOOK - now
            if wait > 0:  # otherwise this is the second look
                found = self._receiver.receive(wait, most, room)
            if not found and self.asks:
                found = self._receiver.receive(0.0, most, room)
        if found:
            self._empty_since = 0.0
        if len(found) >= most or sum(len(one.message.body) for one in found) >= room:
            self._expect_more()
        return found

    def listen(self, *, waits: bool = True) -> bool:
        """Looks for a message, in another thread than the claims. Returns whether one has come.

        Args:
            waits: whether the look waits shortly.

        Raises:
            ProviderError: the broker failed.
        """
        with self._lock:
            self._check()  # a thread that asks a closed receiver may still be in Java when Python ends
            if self._early or self.claims:
                return bool(self._early)
            now = time.monotonic()
            self._empty_since = self._empty_since or now
            is_quiet = now - self._empty_since >= _SECOND_LOOK  # then no claim waits for this
            seconds = _LONG_LOOK if is_quiet else _SECOND_LOOK
            if self._news is not None:
                self._news.begin(self.number)
            try:
                self._early = self._receiver.receive(seconds if waits else _FETCHED)
            except ProviderError as error:
                self._undo_receive(error)
                raise
            if self._early:
                self._empty_since = 0.0
                if self._news is not None:
                    self._news.add(self.number, is_sure=True)
            return bool(self._early)

    def settle(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        """Settles all claims of the transaction, and sends the messages of the settlements with them.

        Raises:
            SettlementError: a destination refuses a message. The transaction is rolled back.
            TransactionRolledBack: the broker has rolled the transaction back.
            CommitUnknown: the commit may have happened.
        """
        self._finish(lambda: self._send(settlements, sends))

    def move(self, queue: Destination, copies: Sequence[tuple[LentClaim, Message]]) -> None:
        """Moves all claims of the transaction to a queue.

        Raises:
            SettlementError, CommitUnknown: as :meth:`settle`.
        """

        def send() -> None:
            for claim, copy in copies:
                self._session.post(queue, copy, copied=claim.reference.message)
            self._mark()
            if self._marker is not None:
                self._marker.note_move()

        self._finish(send)

    def _finish(self, send: Callable[[], None]) -> None:
        """Sends, and commits."""
        with self._lock:
            self._check()
            try:
                if self._spoilt:
                    raise ProviderError(self._spoilt)
                send()
                self._session.check_sends()
            except (ConnectorError, ValueError) as error:
                self._roll_back()
                raise refusal_of(self._connection, error) from error
            faults.point("settle.committing")
            try:
                self._session.commit()
            except TransactionRolledBack as error:
                raise refusal_of(self._connection, error) from error
            except CommitUnknown:
                self._marker = None  # the mark in the queue tells whether the commit has happened
                raise
            finally:
                self._forget()  # last: a session with claims is not free for another thread
            self._most = min(self._limits.batch, self._most * 2)
            faults.point("settle.finished")
        self._close_if_left()

    def _send(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        """Adds the messages of a settlement to the transaction."""
        for prepared in (*sends, *(one for settlement in settlements for one in settlement.sends)):
            post_prepared(self._connection, self._session, prepared)
        for settlement in settlements:
            copied: Message = settlement.claim.reference.message
            if settlement.subscription and self._later is not None:
                self._later.post_back(self._session, settlement, copied)
            elif settlement.due and self._later is not None:
                self._later.post(self._session, settlement, self.input_name, copied)
            elif settlement.copy_to is not None:
                self._session.post(settlement.copy_to, copy_of(settlement), copied=copied)
        self._mark()

    def _mark(self) -> None:
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
        self._expect_more()
        self._session.rollback()

    def _close_if_left(self) -> None:
        if self._leaves:
            self._end()

    def _end(self) -> None:
        """Ends the session without an open transaction. Somebody may need the mark of its last commit."""
        if self._marker is None or self.is_free:
            self.close()
            return
        self._leaves = True
        self._marker.leave(self.close)
        with contextlib.suppress(ProviderError), self._lock:
            self._receiver.close()
            self._roll_back()

    def _forget(self) -> None:
        self.claims = []
        self._early = []
        self._bytes = 0
        self._spoilt = ""
        self._empty_since = 0.0

    def leave(self) -> None:
        """Receives no more. Ends the session, at once or at the end of its open transaction. Never raises."""
        if not self.claims:
            self._end()
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
        has_lock = self._lock.acquire(timeout=CLOSE)
        try:
            if self._closed:
                return
            self._closed = True
            self._forget()
            if self._news is not None:
                self._news.forget(self.number)
            try:
                self._receiver.close()
                for session, marker in [*self._parked, (self._session, self._marker)]:
                    if marker is not None and has_lock and not keeps_mark:
                        session.rollback()
                        marker.close()
            except ProviderError as error:
                _log.debug("closing a receiver failed", extra={"reason": str(error)})
            for session, _ in self._parked:
                session.close()
            self._session.close()
        finally:
            if has_lock:
                self._lock.release()
