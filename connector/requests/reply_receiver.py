"""Takes replies from one provider connection, settles them, and completes their calls.

A reply is settled before its caller is told, so that the caller finds no trace of the reply. A reply that
nobody awaits is settled as ``late_replies`` says.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from connector.core.takeover import TakeoverTimer, try_take_over
from connector.errors import ClaimLost, MalformedData, ProviderError, RequestRefused, SettlementError
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection, Poller
from connector.messaging.settlement import Settlement
from connector.requests.late import LateReplies
from connector.requests.own_replies import OwnReplies
from connector.requests.pending import Answer, Call, Failure, Pending, UnmatchedReply
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

MAX_REPLIES: Final = 500
"""Most replies that are taken at a time."""
_CHECK_SECONDS: Final = 0.1
"""Seconds between two checks of the provider."""


@dataclass(slots=True)
class _SelectorPoller:
    """A call with a separate poller."""

    call: Call
    poller: Poller


@dataclass(slots=True)
class _Found:
    """The replies of one look, with their settlements and calls."""

    awaited: list[Settlement] = field(default_factory=list)
    unmatched: list[Settlement] = field(default_factory=list)
    answered: list[tuple[Call, Answer]] = field(default_factory=list)
    calls: set[Call] = field(default_factory=set)


class ReplyReceiver:
    """Takes replies. For one thread at a time, except :meth:`wake`.

    Args:
        connection: for this object only.
        own: finds replies to requests of this client.
        pending: the calls that await replies.
        late: settles replies that nobody awaits.
        max_body: bytes of a reply. A larger reply is unreadable.

    Raises:
        ProviderError: the connection has failed.
    """

    def __init__(
        self, connection: Connection, own: OwnReplies, pending: Pending, late: LateReplies, max_body: int
    ) -> None:
        self._connection = connection
        self._own = own
        self._pending = pending
        self._late = late
        self._max_body = max_body
        self._access = connection.access().open()
        self._waiter = connection.waiter()
        self._is_told = False
        """Whether the waiter reports every reply that comes after the last look."""
        self._selector_pollers: list[_SelectorPoller] = []
        self._unreachable: dict[Destination, str] = {}
        self.temporaries: dict[bool, Destination] = {}
        """The queues that :meth:`temporary` has made."""
        self._cycle = 0
        self._sequence = 0
        self._schedule = TakeoverTimer()
        self._look_after = 0.0
        try_take_over(connection, at_start=True)

    # -- what is to be taken -------------------------------------------------------------------------

    def temporary(self, shared: bool) -> Destination:
        """Returns a temporary queue, which the first call makes.

        Args:
            shared: True = the queue for calls with a response selector. False = a private queue that needs no
                selector: each message is a reply with a correlation id.

        Raises:
            CapabilityError: the provider has no temporary queues.
            ProviderError: the queue cannot be made.
        """
        found = self.temporaries.get(shared)
        if found is None:
            found = self._connection.temporary("queue")
            if not shared:
                self._own.take_all_from(self._connection, found)
            self.temporaries[shared] = found
        return found

    def take_from(self, destination: Destination) -> Destination:
        """Takes this client's replies from ``destination``, too. A first look shows whether that is possible.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
            ProviderError: the provider failed.
        """
        with self._blaming(destination):
            self._own.take_from(self._connection, destination, self._pending.destinations)
        self._unreachable.pop(destination, None)
        self.take()
        if destination in self._unreachable:
            raise RequestRefused(self._unreachable.pop(destination))
        return destination

    def watch(self, call: Call, destination: Destination, selector: str) -> None:
        """Takes the first message that matches the selector as the reply of ``call``.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
            ProviderError: the provider failed.
        """
        if not call.completed:
            with self._blaming(destination):
                poller = self._connection.poller(destination, selector=selector)
            self._selector_pollers.append(_SelectorPoller(call, poller))

    @contextmanager
    def _blaming(self, destination: Destination) -> Iterator[None]:
        """Turns a provider failure into RequestRefused if the provider still answers."""
        try:
            yield
        except ProviderError as error:
            self._connection.check()
            raise RequestRefused(f"replies cannot be taken from {destination}: {error}") from error

    # -- taking --------------------------------------------------------------------------------------

    def take(self) -> int:
        """Takes up to :data:`MAX_REPLIES` messages, completes their calls, and returns the number taken.

        Raises:
            ProviderError: the provider failed. Replies that were read before complete their calls.
        """
        self._cycle += 1
        self._sequence = 0
        self._own.refresh(self._connection)
        self._is_told = self._waiter is not None and self._waiter.begin()
        found = _Found()
        try:
            for watch in tuple(self._selector_pollers):
                if not (watch.call.completed or watch.call in found.calls or self._look(watch, found)):
                    continue
                self._selector_pollers.remove(watch)
                watch.poller.close()
            for poller in self._own.pollers:
                self._take_own(poller, found)
            self._settle(found.awaited, found.unmatched)
        finally:
            for call, answer in found.answered:
                call.complete(answer)
        return self._sequence

    def _look(self, watch: _SelectorPoller, found: _Found) -> bool:
        """Looks for the reply of a call with a response selector. Returns whether the call is done."""
        try:
            while self._sequence < MAX_REPLIES and (claim := self._claim(watch.poller)) is not None:
                message, failure = self._load(claim)
                named = self._pending.named(self._own.key(message))
                if isinstance(named, UnmatchedReply):  # an earlier request, which was answered or given up
                    found.unmatched.append(self._late.settlement(claim, named))
                    continue
                call = named or watch.call
                self._pending.answered(call)
                self._found(found, call, claim, message, failure)
                if call is watch.call:
                    return True
        except RequestRefused as error:
            watch.call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, str(error)))
            return True
        return False

    def _take_own(self, poller: Poller, found: _Found) -> None:
        """Takes the replies from one destination.

        A failure of the destination fails only the calls that await replies there.
        """
        try:
            while self._sequence < MAX_REPLIES and (claim := self._claim(poller)) is not None:
                message, failure = self._load(claim)
                call = self._pending.take(self._own.key(message))
                if isinstance(call, UnmatchedReply):
                    found.unmatched.append(self._late.settlement(claim, call))
                else:
                    self._found(found, call, claim, message, failure)
        except RequestRefused as error:
            _log.warning(
                "no replies are taken from a destination any more",
                extra={"destination": str(poller.destination), "reason": str(error)},
            )
            self._own.remove(poller.destination)
            self._unreachable[poller.destination] = str(error)
            for call in self._pending.waiting_at(poller.destination):
                self._pending.give_up(call)
                call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, str(error)))

    def _found(
        self, found: _Found, call: Call, claim: Claim, message: Message, failure: Failure | None
    ) -> None:
        found.calls.add(call)
        found.answered.append((call, failure or message))
        if failure is None:
            found.awaited.append(Settlement(claim))
        else:
            found.unmatched.append(
                self._late.settlement(claim, UnmatchedReply.UNREADABLE, failure.text or "")
            )

    def _claim(self, poller: Poller) -> Claim | None:
        with self._blaming(poller.destination):
            claim = poller.take(self._cycle, self._sequence)
        if claim is not None:
            self._sequence += 1
        return claim

    def _load(self, claim: Claim) -> tuple[Message, Failure | None]:
        """Returns the message. An unreadable reply gives the headers alone, and the failure for the call."""
        try:
            message = self._access.load(claim.reference, self._max_body)
            message.destination = str(claim.destination)
            return message, None
        except (MalformedData, LookupError) as error:
            if isinstance(error, LookupError):
                self._connection.check()  # if the provider is gone, every message seems to be missing
            text = f"the reply {claim.message_id} on {claim.destination} cannot be read: {error}"
            return claim.headers(), Failure(ReturnCode.FAIL, text)

    def _settle(self, awaited: list[Settlement], unmatched: list[Settlement]) -> None:
        """Settles each awaited reply by itself, which costs least.

        One failure then affects only one reply.
        """
        for settlement in awaited:
            try:
                self._connection.settle([settlement])
            except ClaimLost as error:  # moved away by hand, or another client took this one for dead ...
                _log.warning("a reply was taken away while it was read", extra={"reason": str(error)})
                self._connection.check()  # ... in which case check() raises, and the listener connects anew
        if unmatched:
            try:
                self._connection.settle(unmatched)
            except SettlementError as error:
                self._late.retry_later(unmatched, error)

    def watched(self) -> list[Call]:
        """Returns the waiting calls that have pollers of their own."""
        return [watch.call for watch in self._selector_pollers if not watch.call.completed]

    # -- between -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Checks that the provider still answers.

        Without a provider no reply comes either, so a missing reply does not tell.

        Raises:
            ProviderError: the provider does not answer.
        """
        self._connection.check()

    def look_after(self) -> None:
        """Checks the provider, takes over dead clients, and settles late replies, each at its own interval.

        Raises:
            ProviderError: the provider is gone.
        """
        now = time.monotonic()
        if now < self._look_after:
            return
        self._look_after = now + _CHECK_SECONDS
        self._connection.check()
        if self._schedule.is_due():
            try_take_over(self._connection, at_start=False)
        self._late.try_again(self._connection)

    def wait(self, seconds: float) -> None:
        """Waits for a reply or for :meth:`wake`, ``seconds`` at most."""
        if self._waiter is not None and self._is_told:
            self._waiter.wait(seconds)
        else:
            self._connection.wait(seconds)

    def wake(self) -> None:
        """Ends the wait of another thread, or else the next wait."""
        self._connection.wake()

    # -- the end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Gives back the late replies that are kept, and closes the connection.

        Raises:
            ProviderError: the provider failed. A takeover does the rest.
        """
        try:
            self._late.close(self._connection)
            self._own.close()
            self._connection.close()
        except BaseException:
            self._connection.abandon()
            raise

    def abandon(self) -> None:
        """Abandons a failed connection, as the death of the process would."""
        self._own.reset()
        self._late.reset()
        try:
            self._connection.abandon()
        except (ProviderError, OSError) as error:
            _log.debug("ending a failed connection failed", extra={"reason": str(error)})
