"""Takes replies at a local provider with the consumers of one session, and completes their calls.

A reply is settled before its caller is told, so that the caller finds no trace of the reply. A reply that
nobody awaits is settled as ``late_replies`` says.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from connector.core.consumer import SessionConsumer
from connector.core.ledger import Delivery
from connector.core.session import CoreSession
from connector.core.takeover import try_take_over
from connector.errors import ClaimLost, ConnectorError, ProviderError, RequestRefused, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.requests.late import LateReplies
from connector.requests.pending import Answer, Call, Failure, PendingCalls, UnmatchedReply
from connector.requests.reply_receiver import (
    MAX_BATCH,
    ReplyMatcher,
    ReplyReceiver,
    ReplySources,
    find_unmatched,
)
from connector.requests.settings import RequestSettings
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

T = TypeVar("T")

_MAX_CONSUMERS: Final = 64
"""Number of consumers at which unused ones are closed: callers may name any reply destination."""
_CHECK_SECONDS: Final = 0.1
"""Seconds between two checks of the provider."""
_RETRY_SECONDS: Final = 10.0
"""Seconds until a late reply that could not be settled is tried again."""


@dataclass(slots=True)
class _Batch:
    """The replies of one :meth:`ReplyReceiver.take`, and the answers to their calls."""

    size: int = 0
    awaited: list[Delivery] = field(default_factory=list)
    unmatched: list[Delivery] = field(default_factory=list)
    answers: dict[Call, Answer] = field(default_factory=dict)


class StoredReplies(ReplyReceiver):
    """Takes replies with a session that acknowledges each message.

    Each reply destination has one consumer with the selector of ``sources``. A call with a selector of its
    own has its own consumer.

    Args:
        session: in INDIVIDUAL mode, for this object only.
        connection: of the session.
        sources: where replies come from.
        calls: the calls that await replies.
        late: decides about replies that nobody awaits.
        settings: of the requests.

    Raises:
        ProviderError: the connection has failed.
    """

    def __init__(
        self,
        session: CoreSession,
        connection: Connection,
        sources: ReplySources,
        calls: PendingCalls,
        late: LateReplies,
        settings: RequestSettings,
    ) -> None:
        self.session = session
        self._connection = connection
        self._sources = sources
        self._calls = calls
        self._matching = ReplyMatcher(sources, calls, late)
        self._max_body = settings.connector.max_body
        self._waiter = connection.waiter()
        self._is_told = False
        """Whether the waiter reports every reply that comes after the last :meth:`take`."""
        self._patterns: tuple[str, ...] = ()
        """The patterns in the selector of the consumers."""
        self._consumers: dict[Destination, SessionConsumer] = {}
        self._own_consumers: dict[Call, SessionConsumer] = {}
        self._unreachable: dict[Destination, str] = {}
        self._temporaries: dict[bool, Destination] = {}
        self._kept: list[Delivery] = []
        """Late replies that could not be settled."""
        self._next_check = self._next_try = 0.0
        try_take_over(connection, at_start=True)

    # -- consumers -----------------------------------------------------------------------------------

    @property
    def temporaries(self) -> dict[bool, Destination]:
        return self._temporaries

    def temporary(self, shared: bool) -> Destination:
        if shared not in self._temporaries:
            made = self.session.temporary_queue()
            if not shared:
                self._consumers[made] = self.session.consumer(made)
            self._temporaries[shared] = made
        return self._temporaries[shared]

    def take_from(self, destination: Destination) -> None:
        self._try(destination, partial(self._consume, destination))
        self._sources.destinations[destination] = None
        self._unreachable.pop(destination, None)
        self.take()
        if destination in self._unreachable:
            raise RequestRefused(self._unreachable.pop(destination))

    def take_by_selector(self, call: Call, destination: Destination) -> None:
        if not call.completed:
            self._own_consumers[call] = self._try(
                destination, partial(self.session.consumer, destination, call.selector)
            )

    def take_by_id(self, call: Call, destination: Destination) -> None:
        raise NotImplementedError("the ids of a local provider have a pattern")

    def unmatched(self, call: Call) -> Message | None:
        return find_unmatched(self._connection, self._sources, call)

    def awaiting(self) -> list[Call]:
        return [call for call in self._own_consumers if not call.completed]

    def _consume(self, destination: Destination) -> None:
        self._refresh()
        if len(self._consumers) >= _MAX_CONSUMERS:
            self._close_unused()
        if destination not in self._consumers:
            self._consumers[destination] = self.session.consumer(destination, self._sources.selector)

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
                self._consumers[destination] = self.session.consumer(destination, self._sources.selector)
            except ConnectorError as error:  # a temporary queue that has ended since
                if isinstance(error, ProviderError):
                    self._connection.check()
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
            self._connection.check()
        try:
            return work()
        except ProviderError as error:
            self._connection.check()
            raise RequestRefused(f"replies cannot be taken from {destination}: {error}") from error

    # -- replies -------------------------------------------------------------------------------------

    def take(self) -> int:
        self._refresh()
        self._is_told = self._waiter is not None and self._waiter.begin()
        batch = _Batch()
        try:
            for call, consumer in tuple(self._own_consumers.items()):
                if call.completed or call in batch.answers or self._take_own(call, consumer, batch):
                    del self._own_consumers[call]
                    consumer.close()
            for destination, consumer in tuple(self._consumers.items()):
                self._take_all(destination, consumer, batch)
            self._settle(batch)
        finally:
            for call, answer in batch.answers.items():
                call.complete(answer)
        return batch.size

    def _take_own(self, call: Call, consumer: SessionConsumer, batch: _Batch) -> bool:
        """Looks for the reply to a call with a selector. Returns whether the call is done."""
        try:
            for delivery in self._deliveries(consumer, batch, 1):
                if self._match(delivery, batch, call) is call:
                    return True
        except RequestRefused as error:
            call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, str(error)))
            return True
        return False

    def _take_all(self, destination: Destination, consumer: SessionConsumer, batch: _Batch) -> None:
        """Takes the replies from one destination.

        A failure of the destination fails only the calls that await replies there.
        """
        try:
            for delivery in self._deliveries(consumer, batch, MAX_BATCH):
                self._match(delivery, batch)
        except RequestRefused as error:
            self._remove_destination(destination, str(error))
            self._unreachable[destination] = str(error)
            for call in self._calls.expecting():
                if call.reply_to == destination:
                    self._calls.remove(call, UnmatchedReply.LATE)
                    call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, str(error)))

    def _deliveries(self, consumer: SessionConsumer, batch: _Batch, most: int) -> Iterator[Delivery]:
        """Takes replies, ``most`` at a time, until there are no more or the batch is full."""
        while batch.size < MAX_BATCH:
            wanted = min(MAX_BATCH - batch.size, most)
            taken = self._try(
                consumer.poller.destination, partial(self.session.inbox.claim, consumer, wanted)
            )
            batch.size += len(taken)
            yield from taken
            if len(taken) < wanted:
                return

    def _match(self, delivery: Delivery, batch: _Batch, unnamed: Call | None = None) -> Call | None:
        """Reads a reply, and notes the answer to its call. Returns the call, if any.

        Args:
            unnamed: the call of a reply that names no call.
        """
        load = partial(self._load, delivery)
        call, answer, settlement = match = self._matching.match(delivery.claim, load, unnamed)
        if not match.is_awaited:
            delivery.begun = 0  # a reply that is given back counts no delivery
            delivery.settlement = settlement
            batch.unmatched.append(delivery)
        else:
            batch.awaited.append(delivery)
        if call is not None:
            batch.answers[call] = answer
        return call

    def _load(self, delivery: Delivery) -> Message:
        try:
            return self.session.inbox.load(delivery, self._max_body)
        except LookupError:
            self._connection.check()  # if the provider is gone, every message seems to be missing
            raise

    def _settle(self, batch: _Batch) -> None:
        """Settles each awaited reply by itself, which costs least.

        One failure then affects only one reply.
        """
        for delivery in batch.awaited:
            try:
                self.session.inbox.settle([delivery])
            except ClaimLost as error:  # moved away by hand, or another client took this one for dead ...
                _log.warning(
                    "a reply was removed by another program while this adapter read the reply",
                    extra={"reason": str(error)},
                )
                self._connection.check()  # ... then check() raises, and the listener connects anew
        self._settle_late(batch.unmatched)

    def _settle_late(self, deliveries: list[Delivery]) -> None:
        """Settles late replies together. If that is not possible, keeps them for another attempt."""
        try:
            self.session.inbox.settle(deliveries)
        except SettlementError as error:
            _log.error(
                "settling late replies failed and is tried again",
                extra={"number": len(deliveries), "seconds": _RETRY_SECONDS, "reason": str(error)},
            )
            self._kept += deliveries
            self._next_try = time.monotonic() + _RETRY_SECONDS

    # -- between -------------------------------------------------------------------------------------

    def maintain(self) -> None:
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_SECONDS
        self._connection.check()
        if self._kept and now >= self._next_try:
            kept, self._kept = self._kept, []
            self._settle_late(kept)

    def wait(self, seconds: float) -> None:
        if self._waiter is not None and self._is_told:
            self._waiter.wait(seconds)
        else:
            self._connection.wait(seconds)

    def check(self) -> None:
        self._connection.check()

    def wake(self) -> None:
        self._connection.wake()

    def close(self) -> None:
        self.session.close()

    def abandon(self) -> None:
        self.session.abandon()
