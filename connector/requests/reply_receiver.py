"""Takes replies from one provider connection, settles them, and completes their calls.

A reply is settled before its caller is told, so that the caller finds no trace of the reply. A reply that
nobody awaits is settled as ``late_replies`` says.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from connector.core.takeover import TakeoverTimer, try_take_over
from connector.errors import (
    ClaimLost,
    ConnectorError,
    MalformedData,
    ProviderError,
    RequestRefused,
    SettlementError,
)
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.requests.late import LateReplies
from connector.requests.pending import Answer, Call, Failure, PendingCalls, UnmatchedReply, key_of
from connector.requests.settings import CORRELATION_ID, RequestSettings
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

T = TypeVar("T")

MAX_BATCH: Final = 500
"""Most replies that are taken at a time."""
_MAX_CONSUMERS: Final = 64
"""Number of consumers at which unused ones are closed: callers may name any reply destination."""
_MAX_PATTERNS: Final = 8
"""Most sending connections whose replies are still taken. There are several only after failures."""
_CHECK_SECONDS: Final = 0.1
"""Seconds between two checks of the provider."""


class ReplySources:
    """The reply destinations of a client, and the selector for its replies. Outlives the connections.

    Thread-safe.

    Args:
        field: field of a reply that repeats the key of the call: JMSCorrelationID, or a property.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._lock = threading.Lock()
        self.destinations: dict[Destination, None] = {}
        self.patterns: tuple[str, ...] = ()

    def expect(self, pattern: str) -> None:
        """Lets the selector match replies that repeat a key of this LIKE pattern (escape ``\\``)."""
        if pattern not in self.patterns:
            with self._lock:
                if pattern not in self.patterns:
                    self.patterns = (*self.patterns, pattern)[-_MAX_PATTERNS:]

    @property
    def selector(self) -> str:
        """The selector that matches the replies to this client's calls."""
        return " OR ".join(f"{self._field} LIKE '{pattern}' ESCAPE '\\'" for pattern in self.patterns)

    def key(self, message: Message) -> str:
        """Returns the key that a reply repeats."""
        if self._field == CORRELATION_ID:
            return key_of(message.correlation_id or "")
        return key_of(str(message.properties.get(self._field, "")))


@dataclass(slots=True)
class _Batch:
    """The replies of one :meth:`ReplyReceiver.take`, with their settlements and calls."""

    size: int = 0
    awaited: list[Settlement] = field(default_factory=list)
    unmatched: list[Settlement] = field(default_factory=list)
    answers: dict[Call, Answer] = field(default_factory=dict)


class ReplyReceiver:
    """Takes replies from one connection. For the thread of the listener.

    Each reply destination has one consumer with the selector of ``sources``. A call with a selector of its
    own has its own consumer.

    Args:
        connection: for this object only.
        sources: where replies come from.
        calls: the calls that await replies.
        late: settles replies that nobody awaits.
        settings: of the requests.

    Raises:
        ProviderError: the connection has failed.
    """

    def __init__(
        self,
        connection: Connection,
        sources: ReplySources,
        calls: PendingCalls,
        late: LateReplies,
        settings: RequestSettings,
    ) -> None:
        self.connection = connection
        self._sources = sources
        self._calls = calls
        self._late = late
        self._max_body = settings.max_body
        self._access = connection.access().open()
        self._waiter = connection.waiter()
        self._is_told = False
        """Whether the waiter reports every reply that comes after the last :meth:`take`."""
        self._patterns: tuple[str, ...] = ()
        """The patterns in the selector of the consumers."""
        self._consumers: dict[Destination, Poller] = {}
        self._own_consumers: dict[Call, Poller] = {}
        self._unreachable: dict[Destination, str] = {}
        self.temporaries: dict[bool, Destination] = {}
        """The queues that :meth:`temporary` has made."""
        self._cycle = 0
        self._schedule = TakeoverTimer(settings.intervals.takeover)
        self._next_check = 0.0
        try_take_over(connection, at_start=True)

    # -- consumers -----------------------------------------------------------------------------------

    def temporary(self, shared: bool) -> Destination:
        """Returns a temporary queue, which the first call makes.

        Args:
            shared: True = the queue for calls with a selector. False = a private queue that needs no
                selector: each message is a reply with a key.

        Raises:
            CapabilityError: the provider has no temporary queues.
            ProviderError: the queue cannot be made.
        """
        if shared not in self.temporaries:
            made = self.connection.temporary("queue")
            if not shared:
                self._consumers[made] = self.connection.poller(made)
            self.temporaries[shared] = made
        return self.temporaries[shared]

    def take_from(self, destination: Destination) -> None:
        """Takes this client's replies from ``destination``, too. A first look shows whether that is possible.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
            ProviderError: the provider failed.
        """
        self._try(destination, partial(self._consume, destination))
        self._sources.destinations[destination] = None
        self._unreachable.pop(destination, None)
        self.take()
        if destination in self._unreachable:
            raise RequestRefused(self._unreachable.pop(destination))

    def take_by_selector(self, call: Call, destination: Destination) -> None:
        """Takes the first message that matches the selector of ``call`` as its reply.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
            ProviderError: the provider failed.
        """
        if not call.completed:
            subscribe = partial(self.connection.poller, destination, selector=call.selector)
            self._own_consumers[call] = self._try(destination, subscribe)

    def awaiting(self) -> list[Call]:
        """Returns the waiting calls that have a consumer of their own."""
        return [call for call in self._own_consumers if not call.completed]

    def _consume(self, destination: Destination) -> None:
        self._refresh()
        if len(self._consumers) >= _MAX_CONSUMERS:
            self._close_unused()
        if destination not in self._consumers:
            self._consumers[destination] = self._consumer(destination)

    def _consumer(self, destination: Destination) -> Poller:
        return self.connection.poller(destination, selector=self._sources.selector)

    def _close_unused(self) -> None:
        used = {call.reply_to for call in self._calls.expecting()}
        for destination in [found for found in self._sources.destinations if found not in used]:
            del self._sources.destinations[destination]
            self._close_consumer(destination)

    def _close_consumer(self, destination: Destination) -> None:
        consumer = self._consumers.pop(destination, None)
        if consumer is not None:
            consumer.close()

    def _refresh(self) -> None:
        """Makes the consumers anew if the selector has changed.

        Raises:
            ProviderError: the provider failed.
        """
        if self._patterns is self._sources.patterns:
            return
        self._patterns = self._sources.patterns
        for destination in tuple(self._sources.destinations):
            self._close_consumer(destination)
            try:
                self._consumers[destination] = self._consumer(destination)
            except ConnectorError as error:  # a temporary queue that has ended since
                if isinstance(error, ProviderError):
                    self.connection.check()
                self._remove_destination(destination, str(error))

    def _remove_destination(self, destination: Destination, reason: str) -> None:
        """Takes no more replies from a destination that cannot be read."""
        if destination not in self._sources.destinations:
            raise ProviderError(f"the temporary queue {destination} is gone")
        _log.warning(
            "a reply destination cannot be read, so no more replies are received from that destination",
            extra={"destination": str(destination), "reason": reason},
        )
        del self._sources.destinations[destination]
        self._close_consumer(destination)

    def _try(self, destination: Destination, work: Callable[[], T]) -> T:
        """Returns the value of ``work``. Blames the destination if the provider fails, but still answers.

        A provider that was away for a moment answers again at the second attempt.
        """
        try:
            return work()
        except ProviderError:
            self.connection.check()
        try:
            return work()
        except ProviderError as error:
            self.connection.check()
            raise RequestRefused(f"replies cannot be taken from {destination}: {error}") from error

    # -- replies -------------------------------------------------------------------------------------

    def take(self) -> int:
        """Takes up to :data:`MAX_BATCH` messages, completes their calls, and returns the number of messages.

        Raises:
            ProviderError: the provider failed. Replies that were read before complete their calls.
        """
        self._cycle += 1
        self._refresh()
        self._is_told = self._waiter is not None and self._waiter.begin()
        batch = _Batch()
        try:
            for call, consumer in tuple(self._own_consumers.items()):
                if call.completed or call in batch.answers or self._take_own(call, consumer, batch):
                    del self._own_consumers[call]
                    consumer.close()
            for consumer in tuple(self._consumers.values()):
                self._take_all(consumer, batch)
            self._settle(batch)
        finally:
            for call, answer in batch.answers.items():
                call.complete(answer)
        return batch.size

    def _take_own(self, call: Call, consumer: Poller, batch: _Batch) -> bool:
        """Looks for the reply to a call with a selector. Returns whether the call is done."""
        try:
            for claim in self._claims(consumer, batch, 1):
                if self._match(claim, batch, call) is call:
                    return True
        except RequestRefused as error:
            call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, str(error)))
            return True
        return False

    def _take_all(self, consumer: Poller, batch: _Batch) -> None:
        """Takes the replies from one destination.

        A failure of the destination fails only the calls that await replies there.
        """
        try:
            for claim in self._claims(consumer, batch, MAX_BATCH):
                self._match(claim, batch)
        except RequestRefused as error:
            self._remove_destination(consumer.destination, str(error))
            self._unreachable[consumer.destination] = str(error)
            for call in self._calls.expecting():
                if call.reply_to == consumer.destination:
                    self._calls.remove(call, UnmatchedReply.LATE)
                    call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, str(error)))

    def _claims(self, consumer: Poller, batch: _Batch, most: int) -> Iterator[Claim]:
        """Claims replies, ``most`` at a time, until there are no more or the batch is full."""
        while batch.size < MAX_BATCH:
            wanted = range(batch.size, min(MAX_BATCH, batch.size + most))
            claims = self._try(consumer.destination, partial(consumer.claim, self._cycle, wanted))
            batch.size += len(claims)
            yield from claims
            if len(claims) < len(wanted):
                return

    def _match(self, claim: Claim, batch: _Batch, unnamed: Call | None = None) -> Call | None:
        """Reads a reply, and notes the answer to its call. Returns the call, if any.

        Args:
            unnamed: the call of a reply that names no call.
        """
        answer, headers = self._load(claim)
        call = self._calls.find(self._sources.key(headers)) or unnamed or UnmatchedReply.LATE
        if isinstance(call, UnmatchedReply):
            batch.unmatched.append(self._late.settlement(claim, call))
            return None
        self._calls.remove(call, UnmatchedReply.DUPLICATE)  # another reply with the same key
        batch.answers[call] = answer
        if isinstance(answer, Failure):
            reason = answer.text or ""
            batch.unmatched.append(self._late.settlement(claim, UnmatchedReply.UNREADABLE, reason))
        else:
            batch.awaited.append(Settlement(claim))
        return call

    def _load(self, claim: Claim) -> tuple[Answer, Message]:
        """Returns the answer and the message. The answer of an unreadable reply is a failure."""
        try:
            message = self._access.load(claim.reference, self._max_body)
            message.destination = str(claim.destination)
            return message, message
        except (MalformedData, LookupError) as error:
            if isinstance(error, LookupError):
                self.connection.check()  # if the provider is gone, every message seems to be missing
            text = f"the reply {claim.message_id} on {claim.destination} cannot be read: {error}"
            return Failure(ReturnCode.FAIL, text), claim.headers()

    def _settle(self, batch: _Batch) -> None:
        """Settles each awaited reply by itself, which costs least.

        One failure then affects only one reply.
        """
        for settlement in batch.awaited:
            try:
                self.connection.settle([settlement])
            except ClaimLost as error:  # moved away by hand, or another client took this one for dead ...
                _log.warning(
                    "a reply was removed by another program while this adapter read the reply",
                    extra={"reason": str(error)},
                )
                self.connection.check()  # ... in which case check() raises, and the listener connects anew
        if batch.unmatched:
            try:
                self.connection.settle(batch.unmatched)
            except SettlementError as error:
                self._late.retry_later(batch.unmatched, error)

    # -- between -------------------------------------------------------------------------------------

    def maintain(self) -> None:
        """Checks the provider, takes over dead clients, and settles kept replies, each at its own interval.

        Raises:
            ProviderError: the provider is gone.
        """
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_SECONDS
        self.connection.check()
        if self._schedule.is_due():
            try_take_over(self.connection, at_start=False)
        self._late.try_again(self.connection)

    def wait(self, seconds: float) -> None:
        """Waits ``seconds`` at most for a reply, or until the connection is woken."""
        if self._waiter is not None and self._is_told:
            self._waiter.wait(seconds)
        else:
            self.connection.wait(seconds)

    # -- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Gives back the kept replies, and closes the connection.

        Raises:
            ProviderError: the provider failed. A takeover does the rest.
        """
        try:
            self._late.close(self.connection)
            self.connection.close()
        except BaseException:
            self.connection.abandon()
            raise

    def abandon(self) -> None:
        """Abandons a failed connection, as the death of the process would."""
        self._late.reset()
        try:
            self.connection.abandon()
        except (ProviderError, OSError) as error:
            _log.debug("closing a failed connection failed", extra={"reason": str(error)})
