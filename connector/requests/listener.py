"""Takes replies with one thread and one provider connection, for all requests of a client.

Each reply destination has one poller. The provider evaluates its selector, which matches replies to this
client's requests only. A request with a response selector has a poller of its own while it waits. This file
decides which thread takes replies and when, and completes every call.
:class:`~connector.requests.reply_receiver.ReplyReceiver` takes the replies.
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
from connector.requests.reply_receiver import MAX_REPLIES, ReplyReceiver
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

_WAIT_SECONDS: Final = 0.25
"""Longest wait in seconds. A request, a reply or a deadline ends the wait early."""
_IDLE_SECONDS: Final = 1.0
"""Seconds between two looks for late replies while no request waits."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 10.0

STOPPED: Final = "the adapter was stopped before a reply came"


@dataclass(slots=True)
class _Command:
    """An operation that another thread wants from the thread that takes replies."""

    do: Callable[[ReplyReceiver], None]
    failed: Callable[[Exception], object]


class ReplyListener:
    """The listener of one request client.

    Args:
        connect: makes a provider connection.
        pending: the calls, found by the value that their replies repeat.
        reply_field: field of a reply with that value: JMSCorrelationID, or a property.
        late: settles replies that nobody awaits.
        max_body: bytes of a reply. A larger reply is unreadable.
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
        self._reader_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = self._ended = False
        self._woken = threading.Event()
        self._commands: deque[_Command] = deque()
        # used only by the thread that holds self._turn
        self._reception: ReplyReceiver | None = None
        self._pause = _FIRST_PAUSE

    # -- for callers, in any thread ------------------------------------------------------------------

    def temporary(self, *, shared: bool) -> Destination:
        """See :meth:`connector.requests.reply_receiver.ReplyReceiver.temporary`."""
        receiver = self._reception
        made = receiver.temporaries.get(shared) if receiver is not None else None
        return made or self._ask(lambda receiver: receiver.temporary(shared))

    def expect(self, pattern: str) -> None:
        """See :meth:`connector.requests.own_replies.OwnReplies.expect`."""
        self._own.expect(pattern)

    def takes_from(self, destination: Destination) -> bool:
        """Whether the listener already takes this client's replies from ``destination``."""
        return self._own.takes_from(destination)

    def take_from(self, destination: Destination) -> None:
        """Takes this client's replies from ``destination`` from now on, if any are expected.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
            ProviderError: the provider failed.
        """
        self._ask(lambda receiver: receiver.take_from(destination))

    def watch(self, call: Call, destination: Destination, selector: str) -> None:
        """Takes the first message that matches the selector as the reply of ``call``."""

        def failed(error: Exception) -> None:
            call.complete(Failure(_status_of(error), f"its reply cannot be looked for: {error}"))

        self._queue_command(_Command(lambda receiver: receiver.watch(call, destination, selector), failed))

    def await_reply(self, call: Call, *, attended: bool = False) -> None:
        """Awaits the reply of a committed call with a deadline. The call always completes.

        Args:
            attended: the caller will call :meth:`attend`.
        """
        with self._lock:
            if not self._ended:
                self._deadlines.add(call)
        if self._ended:
            call.complete(Failure(ReturnCode.APPRESPONSETIMEOUT, STOPPED))
        if not attended:
            self._wake()

    def attend(self, call: Call) -> None:
        """Takes replies in this thread until the call completes, unless another thread takes them now.

        A caller that waits alone gets its reply without a change of threads. If several callers wait, one
        takes the replies for all. When its own reply has come, the listener's thread goes on.
        """
        if not self._reader_lock.acquire(blocking=False):
            self._wake()
            return
        try:
            while not call.completed and not self._ending:
                self._try_round()
        finally:
            self._reader_lock.release()
        if self._deadlines.next() != math.inf or self._commands:
            self._wake()

    def stop(self) -> None:
        """Ends the listener. Waiting calls complete without a reply. Repeatable."""
        with self._lock:
            self._ending = True
            thread = self._thread
        self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        with self._lock:
            self._ended = True
        self._complete_all(STOPPED)  # calls that came after the thread had ended

    def _ask(self, question: Callable[[ReplyReceiver], Destination]) -> Destination:
        answer: Future[Destination] = Future()
        self._queue_command(
            _Command(lambda receiver: answer.set_result(question(receiver)), answer.set_exception)
        )
        return answer.result()

    def _queue_command(self, command: _Command) -> None:
        with self._lock:
            if not self._ended:
                self._commands.append(command)
        if self._ended:
            command.failed(ProviderError(STOPPED))
        self._wake()

    def _wake(self) -> None:
        """Starts the thread if there is none, and makes the thread look again at once."""
        with self._lock:
            if self._thread is None and not self._ending:
                self._thread = threading.Thread(target=self._run, name="connector-replies", daemon=True)
                self._thread.start()
        self._woken.set()
        receiver = self._reception
        if receiver is not None:
            receiver.wake()

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._ending:
            with self._reader_lock:
                failed = not self._try_round()
            if failed:
                self._rest(self._pause)  # a new request ends the pause
            elif self._deadlines.next() == math.inf:
                self._rest(_IDLE_SECONDS)
        with self._reader_lock:
            self._end()

    def _rest(self, seconds: float) -> None:
        if not self._ending:  # stop() may have set the event just before the round cleared the event
            self._woken.wait(seconds)

    def _try_round(self) -> bool:
        """Runs one round. A failure completes every call, and the next round makes a new connection."""
        try:
            self._round()
        except Exception as error:
            self._fail(error)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            return False
        self._pause = _FIRST_PAUSE
        return True

    def _round(self) -> None:
        """Does the operations of other threads, takes replies, ends calls whose time is up, and waits."""
        self._woken.clear()
        if self._reception is None:
            self._reception = self._receive()
        receiver = self._reception
        began = time.monotonic()  # before the operations: a later call has a later deadline
        while self._commands:
            self._carry_out(self._commands.popleft(), receiver)
        taken = receiver.take()
        if taken < MAX_REPLIES:  # every reply that had come before these deadlines has been taken
            self._time_out(receiver, began)
        if not taken:
            receiver.look_after()
            self._wait(receiver)

    def _receive(self) -> ReplyReceiver:
        connection = self._connect()
        try:
            return ReplyReceiver(connection, self._own, self._pending, self._late, self._max_body)
        except BaseException:
            connection.abandon()
            raise

    def _carry_out(self, command: _Command, receiver: ReplyReceiver) -> None:
        try:
            command.do(receiver)
        except ProviderError as error:
            command.failed(error)
            raise
        except ConnectorError as error:
            command.failed(error)

    def _time_out(self, receiver: ReplyReceiver, began: float) -> None:
        """Completes the calls whose deadline was before this round began."""
        if self._deadlines.next() > began:
            return
        receiver.check()
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

    def _wait(self, receiver: ReplyReceiver) -> None:
        """Waits for a reply, an operation or a deadline, if a call waits."""
        deadline = self._deadlines.next()
        if deadline != math.inf and not self._woken.is_set():  # anything that comes from now on ends the wait
            receiver.wait(max(0.0, min(_WAIT_SECONDS, deadline - time.monotonic())))

    # -- the end -------------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """Completes all calls with the failure of the connection, and abandons the connection."""
        if isinstance(error, ConnectorError | OSError):
            _log.warning("replies cannot be taken", extra={"reason": str(error)})
        else:
            _log.error("replies cannot be taken", extra={"reason": str(error)}, exc_info=error)
        self._complete_all(f"the provider failed while the reply was awaited: {error}", str(error))
        receiver, self._reception = self._reception, None
        if receiver is not None:
            receiver.abandon()

    def _complete_all(self, text: str, reason: str = "") -> None:
        failure = Failure(ReturnCode.APPRESPONSETIMEOUT, text)
        while self._commands:
            self._commands.popleft().failed(ProviderError(reason or text))
        for call in (*self._deadlines.all(), *(self._reception.watched() if self._reception else ())):
            self._pending.give_up(call)
            call.complete(failure)

    def _end(self) -> None:
        self._complete_all(STOPPED)
        receiver, self._reception = self._reception, None
        if receiver is not None:
            try:
                receiver.close()
            except (ProviderError, OSError) as error:
                _log.warning("ending the listener for replies failed", extra={"reason": str(error)})


def _status_of(error: Exception) -> ReturnCode:
    return ReturnCode.APPRESPONSETIMEOUT if isinstance(error, ProviderError) else ReturnCode.FAIL
