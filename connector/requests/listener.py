"""Lets replies be taken: by one thread and over one provider connection, for all requests of a client.

For each reply destination there is one poller, whose selector the provider evaluates and which is true for
replies to this client's requests only: strangers and neighbours keep theirs. A request with a response
selector has a poller of its own, for as long as it waits. Here is who does it and when,
and that every call completes; the taking itself is :class:`~connector.requests.reception.Reception`.
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

from connector.errors import ConnectorError, ProviderError
from connector.messaging.destination import Destination
from connector.messaging.provider import Connection
from connector.requests.late import LateReplies
from connector.requests.own_replies import OwnReplies
from connector.requests.pending import Call, Deadlines, Failure, Pending
from connector.requests.reception import MOST, Reception
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

_SLICE: Final = 0.25
"""Seconds that one wait takes at most; a request, a reply and the next deadline end it."""
_QUIET: Final = 1.0
"""Seconds between two looks for late replies while no request waits."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0

STOPPED: Final = "the adapter was stopped before a reply came"


@dataclass(slots=True)
class _Order:
    """Something that whoever has the turn does for another."""

    do: Callable[[Reception], None]
    failed: Callable[[Exception], object]


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
        self._own = OwnReplies(reply_field)
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
        # what follows is for whoever has the turn
        self._reception: Reception | None = None
        self._pause = _FIRST_PAUSE

    # -- for callers, in any thread ------------------------------------------------------------------

    def temporary(self, *, shared: bool) -> Destination:
        """See :meth:`connector.requests.reception.Reception.temporary`."""
        reception = self._reception
        made = reception.temporaries.get(shared) if reception is not None else None
        return made or self._ask(lambda reception: reception.temporary(shared))

    def expect(self, pattern: str) -> None:
        """See :meth:`connector.requests.own_replies.OwnReplies.expect`."""
        self._own.expect(pattern)

    def takes_from(self, destination: Destination) -> bool:
        """Whether it takes this client's replies from there already."""
        return self._own.takes_from(destination)

    def take_from(self, destination: Destination) -> None:
        """Takes this client's replies from there from now on, where something is expected.

        Raises:
            RequestRefused, DestinationError, CapabilityError: that is not possible.
            ProviderError: the provider failed.
        """
        self._ask(lambda reception: reception.take_from(destination))

    def watch(self, call: Call, destination: Destination, selector: str) -> None:
        """Takes the first message that the selector is true for as the reply of ``call``."""

        def failed(error: Exception) -> None:
            call.complete(Failure(_status_of(error), f"its reply cannot be looked for: {error}"))

        self._order(_Order(lambda reception: reception.watch(call, destination, selector), failed))

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
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            self._ended = True
        self._complete_all(STOPPED)  # of those that came when the thread had done that

    def _ask(self, question: Callable[[Reception], Destination]) -> Destination:
        answer: Future[Destination] = Future()
        self._order(_Order(lambda reception: answer.set_result(question(reception)), answer.set_exception))
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
        reception = self._reception
        if reception is not None:
            reception.wake()

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
        if self._reception is None:
            self._reception = self._receive()
        reception = self._reception
        began = time.monotonic()  # before the orders: a call whose order comes too late has a later deadline
        while self._orders:
            self._carry_out(self._orders.popleft(), reception)
        taken = reception.take()
        if taken < MOST:  # all that was there when the time of these calls was up has been seen
            self._time_out(reception, began)
        if not taken:
            reception.look_after()
            self._wait(reception)

    def _receive(self) -> Reception:
        connection = self._connect()
        try:
            return Reception(connection, self._own, self._pending, self._late, self._max_body)
        except BaseException:
            connection.abandon()
            raise

    def _carry_out(self, order: _Order, reception: Reception) -> None:
        try:
            order.do(reception)
        except ProviderError as error:
            order.failed(error)
            raise
        except ConnectorError as error:
            order.failed(error)

    def _time_out(self, reception: Reception, began: float) -> None:
        """Completes the calls whose time was up before what there is was looked at."""
        if self._deadlines.next() > began:
            return
        reception.check()
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

    def _wait(self, reception: Reception) -> None:
        """Waits for a reply, an order or a deadline, where a call waits."""
        deadline = self._deadlines.next()
        if deadline != math.inf and not self._woken.is_set():  # what comes from now on ends the wait
            reception.wait(max(0.0, min(_SLICE, deadline - time.monotonic())))

    # -- the end -------------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """The connection has failed: who waits is told so, and everything of it is given up."""
        if isinstance(error, ConnectorError | OSError):
            _log.warning("replies cannot be taken", extra={"reason": str(error)})
        else:
            _log.error("replies cannot be taken", extra={"reason": str(error)}, exc_info=error)
        self._complete_all(f"the provider failed while the reply was awaited: {error}", str(error))
        reception, self._reception = self._reception, None
        if reception is not None:
            reception.abandon()

    def _complete_all(self, text: str, reason: str = "") -> None:
        failure = Failure(ReturnCode.APPRESPONSETIMEOUT, text)
        while self._orders:
            self._orders.popleft().failed(ProviderError(reason or text))
        for call in (*self._deadlines.all(), *(self._reception.watched() if self._reception else ())):
            self._pending.give_up(call)
            call.complete(failure)

    def _end(self) -> None:
        self._complete_all(STOPPED)
        reception, self._reception = self._reception, None
        if reception is not None:
            try:
                reception.close()
            except (ProviderError, OSError) as error:
                _log.warning("ending the listener for replies failed", extra={"reason": str(error)})


def _status_of(error: Exception) -> ReturnCode:
    return ReturnCode.APPRESPONSETIMEOUT if isinstance(error, ProviderError) else ReturnCode.FAIL
