"""Takes replies: one thread and one provider connection for all requests of a client (design, section 5).

For each reply destination it has one poller, whose selector the provider evaluates and which is true for
replies to this client's requests only: strangers and neighbours keep theirs. A request with a response
selector has a poller of its own, for as long as it waits. A reply is settled before its caller is told, so
that who has its answer finds no trace of it; one that nobody awaits is settled as ``late_replies`` says.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from connector.core.takeover import Schedule, try_take_over
from connector.errors import ClaimLost, ConnectorError, MalformedData, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Claim, Connection, MessageAccess, Poller, Settlement
from connector.messaging.selector import Selector
from connector.requests.late import LateReplies
from connector.requests.own_replies import OwnReplies
from connector.requests.pending import Answer, Call, Deadlines, Failure, Pending, Stray
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

_SLICE: Final = 0.25
"""Seconds that one wait takes at most; a request, a reply and the next deadline end it."""
_QUIET: Final = 1.0
"""Seconds between two looks for late replies while no request waits."""
_LOOK: Final = 0.1
"""Seconds between two looks whether the provider is still there."""
_MOST: Final = 500
"""Replies in one commit."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0


@dataclass(slots=True)
class _Order:
    """Something that the thread does for another, with its connection."""

    do: Callable[[Connection], None]
    failed: Callable[[Exception], object]


@dataclass(slots=True)
class _Watch:
    """A call that has a poller of its own."""

    call: Call
    poller: Poller


class Listener:
    """The listener of one request client.

    Args:
        connect: makes a provider connection.
        pending: the calls whose replies are told by what they repeat.
        reply_field: where replies repeat it: JMSCorrelationID, or a property.
        late: what becomes of replies that nobody awaits.
        max_body: bytes of a reply; a larger one is unreadable.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        pending: Pending,
        reply_field: str,
        late: LateReplies,
        max_body: int,
    ) -> None:
        self._connect = connect
        self._pending = pending
        self._late = late
        self._max_body = max_body
        self._deadlines = Deadlines()
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = self._ended = False
        self._woken = threading.Event()
        self._orders: deque[_Order] = deque()
        self._own = OwnReplies(reply_field)
        # what follows is for whoever has the turn, and of the connection of the moment
        self._connection: Connection | None = None
        self._access: MessageAccess | None = None
        self._watches: list[_Watch] = []
        self._temporary: dict[bool, Destination] = {}
        self._cycle = 0
        self._sequence = 0
        self._schedule = Schedule()
        self._pause = _FIRST_PAUSE
        self._look_after = 0.0

    # -- for callers, in any thread ------------------------------------------------------------------

    def temporary(self, *, shared: bool) -> Destination:
        """A temporary queue of this client, for replies; made when first asked for.

        Args:
            shared: the one for calls with selectors of their own; else the one of which every message is a
                reply that repeats what it is to, so that none needs to be looked for.

        Raises:
            CapabilityError: the provider has none.
            ProviderError: it cannot be made.
        """
        found = self._temporary.get(shared)
        if found is not None:
            return found
        return self._ask(lambda connection: self._make_temporary(connection, shared))

    def expect(self, pattern: str) -> None:
        """See :meth:`connector.requests.own_replies.OwnReplies.expect`."""
        self._own.expect(pattern)

    def takes_from(self, destination: Destination) -> bool:
        """Whether it takes this client's replies from there already."""
        return self._own.takes_from(destination)

    def take_from(self, destination: Destination) -> None:
        """Takes this client's replies from there from now on, where something is expected.

        Raises:
            DestinationError, CapabilityError: nobody, or not this client, can take from there.
            ProviderError: the provider failed.
        """
        self._ask(lambda connection: self._own.take_from(connection, destination))

    def watch(self, call: Call, destination: Destination, selector: Selector) -> None:
        """Takes the first message that the selector is true for as the reply of ``call``."""

        def begin(connection: Connection) -> None:
            if not call.completed:
                self._watches.append(_Watch(call, connection.poller(destination, selector=selector)))

        def failed(error: Exception) -> None:
            call.complete(Failure(_status_of(error), f"its reply cannot be looked for: {error}"))

        self._order(_Order(begin, failed))

    def await_reply(self, call: Call, *, attended: bool = False) -> None:
        """A call that has been committed and has its deadline: it completes, one way or another.

        Args:
            attended: the caller will :meth:`attend` to it.
        """
        with self._lock:
            if not self._ended:
                self._deadlines.add(call)
        if self._ended:
            call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, STOPPED))
        if not attended:
            self._wake()

    def attend(self, call: Call) -> None:
        """Does the thread's work until the call completes, where nobody else does it at the moment.

        A caller that waits alone then has its reply without a change of threads; of many that wait, one
        attends to all, and hands over to the thread when it has its own.
        """
        if not self._turn.acquire(blocking=False):
            self._wake()
            return
        try:
            while not call.completed and not self._ending:
                self._try_round()
        finally:
            self._turn.release()
        if self._deadlines.next() != math.inf or self._orders:
            self._wake()

    def stop(self) -> None:
        """Ends it; the calls that still wait complete without a reply. Repeatable."""
        with self._lock:
            self._ending = True
            thread = self._thread
        self._wake()
        if thread is not None:
            thread.join()
        with self._lock:
            self._ended = True
        self._complete_all(STOPPED)  # of those that came when the thread had done that

    def _ask(self, question: Callable[[Connection], Destination]) -> Destination:
        answer: Future[Destination] = Future()
        self._order(_Order(lambda connection: answer.set_result(question(connection)), answer.set_exception))
        return answer.result()

    def _order(self, order: _Order) -> None:
        with self._lock:
            if not self._ended:
                self._orders.append(order)
        if self._ended:
            order.failed(ProviderError(STOPPED))
        self._wake()

    def _wake(self) -> None:
        """The thread looks again, at once; it is started where it was not."""
        with self._lock:
            if self._thread is None and not self._ending:
                self._thread = threading.Thread(target=self._run, name="connector-replies", daemon=True)
                self._thread.start()
        self._woken.set()
        connection = self._connection
        if connection is not None:
            connection.wake()

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending:
            with self._turn:
                failed = not self._try_round()
            if failed:
                self._rest(self._pause)  # a new request tries at once
            elif self._deadlines.next() == math.inf:
                self._rest(_QUIET)
        with self._turn:
            self._end()

    def _rest(self, seconds: float) -> None:
        if not self._ending:  # whoever said so may have set what the round has cleared
            self._woken.wait(seconds)

    def _try_round(self) -> bool:
        """One round; where it fails every call completes, and the next begins anew, with a new connection."""
        try:
            self._round()
        except Exception as error:
            self._fail(error)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            return False
        self._pause = _FIRST_PAUSE
        return True

    def _round(self) -> None:
        """Does what others want, takes what there is, lets the time of calls be up, and waits."""
        self._woken.clear()
        connection, access = self._open()
        began = time.monotonic()  # before the orders: a call whose order comes too late has a later deadline
        while self._orders:
            self._carry_out(self._orders.popleft(), connection)
        self._own.refresh(connection)
        taken = self._take(connection, access)
        if taken < _MOST:  # all that was there when the time of these calls was up has been seen
            self._time_out(connection, began)
        if not taken:
            if began >= self._look_after:
                self._look_after_all(connection)
            self._wait(connection)

    def _look_after_all(self, connection: Connection) -> None:
        """What is to be done from time to time while no replies come."""
        self._look_after = time.monotonic() + _LOOK
        connection.check()
        if self._schedule.is_due():
            try_take_over(connection, at_start=False)
        self._late.try_again(connection)

    def _open(self) -> tuple[Connection, MessageAccess]:
        if self._connection is None or self._access is None:
            connection = self._connect()
            self._connection = connection
            self._access = connection.access().open()
            try_take_over(connection, at_start=True)
        return self._connection, self._access

    def _carry_out(self, order: _Order, connection: Connection) -> None:
        try:
            order.do(connection)
        except ProviderError as error:
            order.failed(error)
            raise
        except ConnectorError as error:
            order.failed(error)

    def _make_temporary(self, connection: Connection, shared: bool) -> Destination:
        found = self._temporary.get(shared)
        if found is None:
            found = connection.temporary("queue")
            if not shared:
                self._own.take_all_from(connection, found)
            self._temporary[shared] = found
        return found

    # -- replies -------------------------------------------------------------------------------------

    def _take(self, connection: Connection, access: MessageAccess) -> int:
        """Takes what there is, up to a bound, and completes the calls; returns how many messages."""
        self._cycle += 1
        self._sequence = 0
        answered: list[tuple[Call, Answer]] = []
        awaited: list[Settlement] = []
        stray: list[Settlement] = []
        try:
            for watch in tuple(self._watches):
                if not watch.call.completed:
                    claim = self._claim(watch.poller)
                    if claim is None:
                        continue
                    message, failure = self._load(claim, access)
                    awaited.append(Settlement(claim))
                    answered.append((watch.call, failure or message))
                self._watches.remove(watch)
                watch.poller.close()
            for poller in self._own.pollers:
                while self._sequence < _MOST and (claim := self._claim(poller)) is not None:
                    message, failure = self._load(claim, access)
                    found = self._pending.take(self._own.key(message))
                    if isinstance(found, Stray):
                        stray.append(self._late.settlement(claim, found))
                    else:
                        awaited.append(Settlement(claim))
                        answered.append((found, failure or message))
            self._settle(connection, awaited, stray)
        finally:
            for call, answer in answered:  # what has been read is an answer, whatever comes after
                call.complete(answer)
        return self._sequence

    def _claim(self, poller: Poller) -> Claim | None:
        claim = poller.take(self._cycle, self._sequence)
        if claim is not None:
            self._sequence += 1
        return claim

    def _load(self, claim: Claim, access: MessageAccess) -> tuple[Message, Failure | None]:
        """The message; one that cannot be read as its headers alone, with what the call is told then."""
        try:
            message = access.load(claim.reference, self._max_body)
            message.destination = str(claim.destination)
            return message, None
        except (MalformedData, LookupError) as error:
            if isinstance(error, LookupError) and self._connection is not None:
                self._connection.check()  # of a provider that is gone, every message is
            text = f"the reply {claim.message_id} on {claim.destination} cannot be read: {error}"
            return claim.headers(), Failure(ReturnCode.FAIL, text)

    def _settle(self, connection: Connection, awaited: list[Settlement], stray: list[Settlement]) -> None:
        """Each awaited reply by itself: they need not stand or fall together, and alone each costs least."""
        for settlement in awaited:
            try:
                connection.settle([settlement])
            except ClaimLost as error:  # moved away by hand; or this client is taken for dead ...
                _log.warning("a reply was taken away while it was read: %s", error)
                connection.check()  # ... and then it is to begin anew
        if stray:
            try:
                connection.settle(stray)
            except SettlementError as error:
                self._late.put_off(stray, error)

    def _time_out(self, connection: Connection, began: float) -> None:
        """Completes the calls whose time was up before what there is was looked at."""
        if self._deadlines.next() > began:
            return
        connection.check()  # a provider that is gone looks as if nothing had come
        for call in self._deadlines.due(began):
            self._pending.give_up(call)
            properties = call.properties
            status = ReturnCode.APPRESPONSETIMEOUT if properties.timeout_fatal else ReturnCode.FAIL
            call.complete(
                Failure(
                    status,
                    f"no reply to {call.sent_as} came to {call.reply_to} within "
                    f"{properties.response_timeout} ms (ResponseTimeout)",
                )
            )

    def _wait(self, connection: Connection) -> None:
        """Waits for a reply, an order or a deadline, where a call waits."""
        deadline = self._deadlines.next()
        if deadline != math.inf and not self._woken.is_set():  # what comes from now on ends the wait
            connection.wait(max(0.0, min(_SLICE, deadline - time.monotonic())))

    # -- the end -------------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """The connection has failed: who waits is told so, and everything of it is given up."""
        if isinstance(error, ConnectorError | OSError):
            _log.warning("replies cannot be taken: %s", error)
        else:
            _log.error("replies cannot be taken: %s", error, exc_info=error)
        self._complete_all(f"the provider failed while the reply was awaited: {error}")
        connection, self._connection, self._access = self._connection, None, None
        self._own.forget()
        self._temporary = {}
        self._late.forget()
        if connection is not None:
            try:
                connection.abandon()
            except (ProviderError, OSError) as second:
                _log.debug("ending a failed connection: %s", second)

    def _complete_all(self, text: str) -> None:
        failure = Failure(ReturnCode.APPRESPONSETIMEOUT, text)
        while self._orders:
            self._orders.popleft().failed(ProviderError(text))
        for watch in self._watches:
            watch.call.complete(failure)
        self._watches = []
        for call in self._deadlines.all():
            self._pending.give_up(call)
            call.complete(failure)

    def _end(self) -> None:
        self._complete_all(STOPPED)
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            self._late.close(connection)
            self._own.close()
            connection.close()
        except (ProviderError, OSError) as error:
            _log.warning("ending the listener for replies: %s", error)
            connection.abandon()


STOPPED: Final = "the adapter was stopped before a reply came"


def _status_of(error: Exception) -> ReturnCode:
    return ReturnCode.APPRESPONSETIMEOUT if isinstance(error, ProviderError) else ReturnCode.FAIL
