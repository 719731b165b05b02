"""Takes replies at a broker, which pushes them, and completes their calls.

One transaction settles what one look took. A reply on the private temporary queue completes its call before
the commit, because nobody else can look into that queue.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from connector.errors import (
    ConnectorError,
    ProviderError,
    RequestRefused,
    SettlementError,
    SubscriptionError,
)
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection, SessionClient, TransactionalConnection
from connector.messaging.settlement import Settlement
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

_MAX_GROUP: Final = 50
"""Most calls whose ids are in one selector."""
_MAX_CONSUMERS: Final = 64
"""Number of reply destinations at which unused ones are left: callers may name any."""
_CHECK_SECONDS: Final = 0.1
"""Seconds between two checks of the connection and of the groups."""
_WITHOUT_COPIES_SECONDS: Final = 10.0
"""Seconds in which late replies get no copies, after the broker has refused one."""
_SECOND_REPLY_SECONDS: Final = 1.0
"""Seconds in which a second reply to an answered call is still taken from a reply destination."""
_MOST_ANSWERED: Final = 16
"""Most groups that are kept only for second replies."""
_AGAIN_SECONDS: Final = 0.5
"""Seconds in which replies come again that were not settled."""


class BrokerLink:
    """The one connection of a request client to a broker.

    The requests are sent on the connection that has the temporary queue of their replies. Thread-safe.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._connection: TransactionalConnection | None = None
        self._closed = False

    def open(self) -> TransactionalConnection:
        """Returns the connection, or a new one if the last one has failed or ended.

        Raises:
            ProviderError: the broker is out of reach.
        """
        with self._lock:
            if self._closed:
                raise ProviderError("the adapter was stopped")
            if self._connection is not None:
                try:
                    self._connection.check()
                except ProviderError:
                    self._connection.abandon()
                    self._connection = None
            if self._connection is None:
                self._connection = cast(TransactionalConnection, self._connect())
            return self._connection

    def session(self) -> SessionClient:
        """Returns the connection of a transacted session."""
        return self.open().session_connection()

    def close(self) -> None:
        """Ends the connection. Repeatable, never raises."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.abandon()


@dataclass(slots=True, eq=False)
class _Group:
    """Calls whose replies one consumer takes.

    Args:
        until: when the consumer ends, by the monotonic clock. 0 = with its last call.
    """

    number: int
    calls: list[Call]
    waiting: set[Call]
    until: float = 0.0


class BrokerReplies(ReplyReceiver):
    """Takes replies in one transaction after the other.

    Args:
        connection: to the broker, for this object only.
    """

    def __init__(
        self,
        connection: TransactionalConnection,
        sources: ReplySources,
        calls: PendingCalls,
        late: LateReplies,
        settings: RequestSettings,
    ) -> None:
        self._connection = connection
        self._sources = sources
        self._calls = calls
        self._matching = ReplyMatcher(sources, calls, late)
        self._access = connection.access().open()
        self._max_body = settings.connector.max_body
        self._late_replies_for = settings.connector.late_replies_for
        self._arrivals = connection.arrivals(settings.connector.max_body)
        self._private = 0
        """The number of the private temporary queue."""
        self._temporaries: dict[bool, Destination] = {}
        self._consumers: dict[Destination, int] = {}
        """The destinations with one consumer for all calls."""
        self._own: dict[int, Call] = {}
        """The calls with a selector of their own, by number."""
        self._new: defaultdict[Destination, list[Call]] = defaultdict(list)
        """Calls that get a consumer in the next look. An earlier connection has left some."""
        for call in tuple(sources.sought):
            self._new[cast(Destination, call.reply_to)].append(call)
        self._groups: dict[int, _Group] = {}
        self._answered: deque[_Group] = deque()
        """Groups whose calls have all got their replies, the oldest first. A second reply may come."""
        self._early: Sequence[tuple[int, Claim]] = ()
        """What :meth:`wait` has taken."""
        self._next_check = 0.0
        self._copies_from = self._leaves_from = 0.0
        for destination in tuple(sources.destinations):
            self._consume_again(destination)

    # -- consumers -----------------------------------------------------------------------------------

    @property
    def temporaries(self) -> dict[bool, Destination]:
        try:
            self._connection.check()
        except ProviderError:
            return {}
        return self._temporaries

    def temporary(self, shared: bool) -> Destination:
        self._connection.check()
        if shared not in self._temporaries:
            made = self._connection.temporary("queue")
            if not shared:
                self._private = self._arrivals.add(made)
            self._temporaries[shared] = made
        return self._temporaries[shared]

    def take_from(self, destination: Destination) -> None:
        if len(self._consumers) >= _MAX_CONSUMERS:
            self._leave_unused()
        self._consume(destination)
        self._sources.destinations[destination] = None

    def _consume(self, destination: Destination) -> None:
        if destination not in self._consumers:
            self._consumers[destination] = self._add(destination, self._sources.selector)

    def _consume_again(self, destination: Destination) -> None:
        """Receives from a destination of the last connection. A refusal fails only the calls of that one."""
        try:
            self._consume(destination)
        except ConnectorError as error:
            if isinstance(error, ProviderError):
                raise
            _log.warning(
                "a reply destination cannot be read, so no more replies are received from that destination",
                extra={"destination": str(destination), "reason": str(error)},
            )
            self._sources.destinations.pop(destination, None)
            for call in self._calls.expecting():
                if call.reply_to == destination:
                    self._give_up(call, error)

    def _leave_unused(self) -> None:
        used = {call.reply_to for call in self._calls.expecting()}
        for destination in [found for found in self._consumers if found not in used]:
            self._arrivals.remove(self._consumers.pop(destination))
            self._sources.destinations.pop(destination, None)

    def take_by_selector(self, call: Call, destination: Destination) -> None:
        if not (call.completed or call in self._own.values()):  # a new connection looks for it by itself
            self._own[self._add(destination, call.selector, one=True)] = call

    def take_by_id(self, call: Call, destination: Destination) -> None:
        self._new[destination].append(call)

    def unmatched(self, call: Call) -> Message | None:
        return find_unmatched(self._connection, self._sources, call)

    def awaiting(self) -> list[Call]:
        return [call for call in self._own.values() if not call.completed]

    def _add(self, destination: Destination, selector: str, *, one: bool = False) -> int:
        """Receives from a destination.

        Raises:
            RequestRefused: the broker refuses the destination.
            SelectorError, DestinationError: it refuses the selector, or there is no such destination.
        """
        try:
            return self._arrivals.add(destination, selector, one=one)
        except SubscriptionError as error:
            raise RequestRefused(f"replies cannot be taken from {destination}: {error}") from error

    def _add_groups(self) -> None:
        """Makes consumers for the calls that have come since the last look, one for many calls."""
        new, self._new = self._new, defaultdict(list)
        for destination, of_it in new.items():
            found = dict.fromkeys(of_it)
            for call in [call for call in found if call.selector]:
                self._seek(call, destination)
            now = time.monotonic()
            calls = [call for call in found if not call.selector and self._late_until(call) > now]
            for start in range(0, len(calls), _MAX_GROUP):
                self._add_group(destination, calls[start : start + _MAX_GROUP])

    def _add_group(self, destination: Destination, calls: list[Call]) -> None:
        try:
            number = self._add(destination, _selector(self._sources.field, calls))
        except ConnectorError as error:
            has_failed = isinstance(error, ProviderError)
            for call in calls:
                if not (has_failed and call.lasting):  # the next connection looks for its reply
                    self._give_up(call, error)
            if has_failed:
                raise
            return
        waiting = {call for call in calls if not call.completed}
        until = max((self._late_until(call) for call in calls if call not in waiting), default=0.0)
        self._groups[number] = _Group(number, calls, waiting, until)

    def _seek(self, call: Call, destination: Destination) -> None:
        """Looks for the reply to a call with a selector, as the last connection did."""
        if call.completed:
            self._sources.sought.pop(call, None)
            return
        try:
            self.take_by_selector(call, destination)
        except ConnectorError as error:
            if isinstance(error, ProviderError):
                raise
            self._give_up(call, error)

    def _give_up(self, call: Call, error: Exception) -> None:
        self._sources.sought.pop(call, None)
        self._calls.remove(call, UnmatchedReply.LATE)
        call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, f"its reply cannot be looked for: {error}"))

    def _late_until(self, call: Call) -> float:
        """Returns until when the reply to a call is looked for. Infinity = the call waits."""
        until = self._sources.sought.get(call, math.inf)
        if call.completed and until == math.inf:
            until = time.monotonic() + self._late_replies_for
            if call in self._sources.sought:
                self._sources.sought[call] = until
        return until

    # -- replies -------------------------------------------------------------------------------------

    def take(self) -> int:
        if self._new:
            self._add_groups()
        self._leave_completed()
        taken, self._early = self._early or self._arrivals.take(0.0, MAX_BATCH), ()
        if not taken:
            return 0
        answers: dict[Call, Answer] = {}
        try:
            settlements = [self._match(number, claim, answers) for number, claim in taken]
            if all(number == self._private for number, _ in taken):
                self._complete(answers)
            self._settle(settlements)
            for call in answers:
                self._sources.sought.pop(call, None)
        finally:
            self._complete(answers)
        return len(taken)

    @staticmethod
    def _complete(answers: dict[Call, Answer]) -> None:
        for call, answer in answers.items():
            call.complete(answer)

    def _match(self, number: int, claim: Claim, answers: dict[Call, Answer]) -> Settlement:
        """Finds the call of a reply, and notes the answer. Returns the settlement of the reply."""
        unnamed = self._own.get(number)
        if unnamed is not None and (unnamed.completed or unnamed in answers):
            unnamed = None
        load = partial(self._load, claim)
        call, answer, settlement = self._matching.match(claim, load, unnamed)
        if call is not None:
            answers[call] = answer
        group = self._groups.get(number)
        if group is not None and call is not None:
            group.waiting.discard(call)
            if not group.waiting and not group.until:
                group.until = time.monotonic() + _SECOND_REPLY_SECONDS
                self._answered.append(group)
        return settlement

    def _load(self, claim: Claim) -> Message:
        message = self._access.load(claim.reference, self._max_body)
        message.destination = str(claim.destination)
        return message

    def _settle(self, settlements: list[Settlement]) -> None:
        """Settles all replies of a look. If a copy is refused, they come again, and then get no copies."""
        if time.monotonic() < self._copies_from:
            settlements = [Settlement(one.claim) for one in settlements]
        try:
            self._arrivals.settle(settlements)
        except SettlementError as error:
            self._connection.check()
            late = sum(one.copy_to is not None for one in settlements)
            if not late:
                raise
            _log.error(
                "late replies get no copies for a while, because the broker refuses one",
                extra={"number": late, "seconds": _WITHOUT_COPIES_SECONDS, "reason": str(error)},
            )
            now = time.monotonic()
            self._copies_from, self._leaves_from = now + _WITHOUT_COPIES_SECONDS, now + _AGAIN_SECONDS

    # -- between -------------------------------------------------------------------------------------

    def maintain(self) -> None:
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_SECONDS
        self._connection.check()
        for group in tuple(self._groups.values()):
            if ended := [call for call in group.waiting if call.completed]:  # without a reply
                group.waiting.difference_update(ended)
                group.until = max(group.until, *map(self._late_until, ended))
            if not group.waiting and 0 < group.until <= now:
                self._leave(group)
        while len(self._answered) > _MOST_ANSWERED or (self._answered and self._answered[0].until <= now):
            self._leave(self._answered.popleft())

    def _leave(self, group: _Group) -> None:
        if self._groups.pop(group.number, None) is not None:
            self._arrivals.remove(group.number)
            for call in group.calls:
                self._sources.sought.pop(call, None)

    def _leave_completed(self) -> None:
        """Ends the consumers of completed calls, so that a later reply stays where it is."""
        if self._own and time.monotonic() >= self._leaves_from:
            for number in [number for number, call in self._own.items() if call.completed]:
                self._sources.sought.pop(self._own.pop(number), None)
                self._arrivals.remove(number)

    def wait(self, seconds: float) -> None:
        self._leave_completed()
        self._early = self._arrivals.take(seconds, MAX_BATCH)

    def check(self) -> None:
        self._connection.check()

    def wake(self) -> None:
        self._arrivals.wake()

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        self._connection.abandon()


def _selector(field: str, calls: Iterable[Call]) -> str:
    """Returns the selector for the replies to calls: they repeat an id with or without ``ID:``."""
    keys = [call.key.replace("'", "''") for call in calls]
    ids = ", ".join(f"'ID:{key}', '{key}'" for key in keys)
    return f"{field} IN ({ids})"
