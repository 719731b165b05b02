"""Takes the replies to all requests of a client, with one thread and one session.

The thread owns the session, its consumers and the deadlines. Other threads give it commands, and wait on
futures. :class:`~connector.requests.reply_receiver.ReplyReceiver` takes the replies. This file decides when,
and completes the calls that get no reply.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from connector.errors import ConnectorError, ProviderError
from connector.messaging.destination import Destination
from connector.requests.pending import Call, Failure, PendingCalls, UnmatchedReply
from connector.requests.reply_receiver import MAX_BATCH, ReplyReceiver, ReplySources
from connector.requests.settings import RequestSettings
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

_WAIT_SECONDS: Final = 0.25
"""Seconds between two looks while a call waits. A reply, a command or a deadline ends the wait early."""
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 10.0
"""Seconds between two attempts to connect."""
_MOST_SHOWN: Final = 1000
"""Characters of a selector or of properties in a reason, at most."""

STOPPED: Final = "the adapter was stopped before a reply came"
_FAILED: Final = "the provider failed while the reply was awaited"


@dataclass(frozen=True, slots=True)
class _Command:
    """An operation that another thread wants from the listener's thread."""

    execute: Callable[[ReplyReceiver], Any]
    result: Future[Any] = field(default_factory=Future)


class ReplyListener:
    """The listener of one request client. Thread-safe."""

    def __init__(
        self,
        open_receiver: Callable[[ReplySources, PendingCalls], ReplyReceiver],
        settings: RequestSettings,
    ) -> None:
        self._open_receiver = open_receiver
        self._intervals = settings.intervals
        self._sources = ReplySources(settings.connector.reply_matching.reply)
        self._calls = PendingCalls()
        self._commands: deque[_Command] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = self._stopped = False
        self._woken = threading.Event()
        self._looks_at = math.inf
        """When the current wait of the thread ends at the latest. Infinity = calls wake the thread."""
        # used only by the thread
        self._receiver: ReplyReceiver | None = None
        self._pause = _FIRST_PAUSE_SECONDS
        self._last_waiting = 0.0

    # -- for callers, in any thread ------------------------------------------------------------------

    def temporary(self, *, shared: bool) -> Destination:
        """Returns a temporary queue for replies, as :meth:`ReplyReceiver.temporary`."""
        receiver = self._receiver
        made = None if receiver is None else receiver.temporaries.get(shared)
        return made or cast(Destination, self._ask(lambda receiver: receiver.temporary(shared)))

    def take_from(self, destination: Destination, pattern: Callable[[], str]) -> None:
        """Takes this client's replies from ``destination`` from now on. Does nothing if that is so already.

        Args:
            pattern: returns the LIKE pattern of the keys that the replies will repeat.

        Raises:
            RequestRefused, DestinationError, CapabilityError: replies cannot be taken from there.
            ProviderError: the provider failed.
        """
        if destination not in self._sources.destinations:
            self._sources.expect(pattern())
            self._ask(lambda receiver: receiver.take_from(destination))

    def _ask(self, execute: Callable[[ReplyReceiver], Any]) -> Any:
        """Returns what the receiver returns, or the next receiver, if the connection has ended meanwhile."""
        was_open = self._receiver is not None
        try:
            return self._command(execute).result()
        except ProviderError:
            if not was_open:
                raise
        return self._command(execute).result()

    def expect(self, call: Call, key: str, pattern: str = "") -> None:
        """Expects the reply that repeats ``key``. Called before anybody can see the request."""
        if pattern:
            self._sources.expect(pattern)
        self._calls.expect(key, call)

    def take_by_selector(self, call: Call, destination: Destination) -> None:
        """Takes the first message that matches the selector of ``call`` as its reply."""

        def check(result: Future[Any]) -> None:
            error = result.exception()
            fatal = isinstance(error, ProviderError)
            if error is not None and not (fatal and call.lasting):  # the next connection looks for its reply
                self._sources.sought.pop(call, None)
                status = ReturnCode.APPRESPONSETIMEOUT if fatal else ReturnCode.FAIL
                call.complete(Failure(status, f"its reply cannot be looked for: {error}"))

        def take(receiver: ReplyReceiver) -> None:
            if not _has_ended(call, receiver):
                receiver.take_by_selector(call, destination)

        if call.lasting:
            self._sources.sought[call] = math.inf
        self._command(take).add_done_callback(check)

    def take_by_id(self, call: Call, destination: Destination) -> None:
        """Takes the message that repeats the id of the request of ``call`` as its reply, at a broker."""
        if call.lasting:
            self._sources.sought[call] = math.inf
        self._command(lambda receiver: receiver.take_by_id(call, destination))

    def await_reply(self, call: Call) -> None:
        """Awaits the reply to a sent call until its deadline. The call always completes."""
        self._add_deadline(call.deadline, call)
        try:
            self.check(call)
        except ProviderError as error:
            self.give_up(call, Failure(ReturnCode.APPRESPONSETIMEOUT, f"{_FAILED}: {error}"))

    def check(self, call: Call) -> None:
        """Checks that the reply to a call can still come.

        Raises:
            ProviderError: the temporary queue of the reply has ended.
        """
        if _has_ended(call, self._receiver):
            raise ProviderError(f"the temporary queue {call.reply_to} has ended")

    def await_slot(self, call: Call, until: float) -> None:
        """Cancels the slot of a call at ``until``, by the monotonic clock, unless granted before."""
        self._add_deadline(until, call)

    def _add_deadline(self, when: float, call: Call) -> None:
        self._calls.add_deadline(when, call)
        if self._stopped:
            self._stop_all()
        elif when < self._looks_at:
            self._wake()

    def give_up(self, call: Call, failure: Failure) -> None:
        """Completes a call without a reply, unless it is completed. A reply that still comes is late."""
        self._calls.remove(call, UnmatchedReply.LATE)
        call.complete(failure)

    def stop(self) -> None:
        """Stops the listener. Waiting calls complete without a reply. Repeatable."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._stopped = True
        self._stop_all()  # calls that came after the thread had ended

    def _command(self, execute: Callable[[ReplyReceiver], Any]) -> Future[Any]:
        command = _Command(execute)
        self._commands.append(command)
        if self._stopped:
            self._stop_all()
        self._wake()
        return command.result

    def _wake(self) -> None:
        """Starts the thread if there is none, and makes the thread look again at once."""
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(target=self._run, name="connector-replies", daemon=True)
                self._thread.start()
                guard = threading.Thread(target=self._guard, name="connector-replies-guard", daemon=True)
                guard.start()
        self._woken.set()
        receiver = self._receiver
        if receiver is not None:
            receiver.wake()

    # -- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping:
            try:
                self._round()
                self._pause = _FIRST_PAUSE_SECONDS
            except Exception as error:  # the next round makes a new connection
                self._fail(error)
                self._wait_for_work(self._pause)
                self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._stop_all()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            try:
                receiver.close()
            except (ProviderError, OSError) as error:
                _log.warning("closing the reply listener failed", extra={"reason": str(error)})

    def _round(self) -> None:
        """Executes commands, takes replies, completes calls at their deadlines, and waits."""
        self._woken.clear()
        if self._receiver is None:
            self._receiver = self._open_receiver(self._sources, self._calls)
        receiver = self._receiver
        began = time.monotonic()  # before the commands: a later call has a later deadline
        while self._commands:
            self._execute(self._commands.popleft(), receiver)
        taken = receiver.take()
        if taken < MAX_BATCH and self._calls.next_deadline() <= began:
            # Every reply that had come before has been taken. But without a provider no reply comes either.
            receiver.check()
            self._complete_due(began, lambda call: self._no_reply(call, receiver))
        if taken < MAX_BATCH:
            receiver.maintain()
            self._wait(receiver)

    def _execute(self, command: _Command, receiver: ReplyReceiver) -> None:
        try:
            result = command.execute(receiver)
        except ProviderError:
            self._commands.appendleft(command)  # told when the receiver is gone
            raise
        except Exception as error:
            command.result.set_exception(error)
            if not isinstance(error, ConnectorError):
                raise
        else:
            command.result.set_result(result)

    def _complete_due(self, now: float, failure: Callable[[Call], Failure]) -> None:
        """Completes the calls whose deadline is not after ``now``, and cancels their wait for a slot."""
        for call in self._calls.due(now):
            if call.deadline <= now:
                self.give_up(call, failure(call))
            elif call.slot is not None:
                call.slot.cancel()

    @staticmethod
    def _no_reply(call: Call, receiver: ReplyReceiver | None = None) -> Failure:
        properties = call.properties
        if call.selector and receiver is not None and (unmatched := receiver.unmatched(call)) is not None:
            found = ", ".join(f"{name}={value!r}" for name, value in unmatched.properties.items())
            return Failure(
                ReturnCode.APPRESPONSETIMEOUT if properties.timeout_fatal else ReturnCode.FAIL,
                f"the reply {unmatched.message_id} to {call.message.message_id} came to {call.reply_to}, "
                f"and does not match the response selector {call.selector[:_MOST_SHOWN]}; its properties: "
                f"{found[:_MOST_SHOWN] or 'none'}",
            )
        return Failure(
            ReturnCode.APPRESPONSETIMEOUT if properties.timeout_fatal else ReturnCode.FAIL,
            f"no reply to {call.message.message_id} came to {call.reply_to} within "
            f"{properties.response_timeout} ms (ResponseTimeout)",
        )

    def _wait(self, receiver: ReplyReceiver) -> None:
        """Waits for a reply, a command or a deadline. An idle listener waits for a call."""
        now = time.monotonic()
        is_idle = now - self._last_waiting > self._intervals.idle
        # set before the deadlines are read: a call that comes later compares its deadline with this
        self._looks_at = math.inf if is_idle else now + _WAIT_SECONDS
        deadline = self._calls.next_deadline()
        if deadline < math.inf:
            self._last_waiting = now
        elif is_idle:
            self._wait_for_work(self._intervals.idle)
            return
        if not (self._woken.is_set() or self._stopping):  # anything that comes from now on ends the wait
            receiver.wait(max(0.0, min(now + _WAIT_SECONDS, deadline) - now))

    def _wait_for_work(self, seconds: float) -> None:
        """Waits until a call or a command comes, or a deadline."""
        self._looks_at = math.inf
        left = self._calls.next_deadline() - time.monotonic()
        if not self._stopping:  # stop() may have set the event just before the round cleared the event
            self._woken.wait(max(0.0, min(seconds, left)))

    def _guard(self) -> None:
        """Runs in a thread of its own. Completes calls when the provider holds the listener's thread."""
        grace = self._intervals.grace
        reason = f"the provider has not answered for {grace:g} s beyond ResponseTimeout"
        silent = Failure(ReturnCode.APPRESPONSETIMEOUT, reason)
        while (thread := self._thread) is not None and thread.is_alive():
            thread.join(grace)
            self._complete_due(time.monotonic() - grace, lambda _: silent)

    # -- the end -------------------------------------------------------------------------------------

    def _fail(self, error: Exception) -> None:
        """Completes calls with the failure of the connection, and abandons the connection.

        Lasting calls go on waiting for the next connection. A failure that nobody expects ends them, too,
        because their replies may be the cause.
        """
        unexpected = None if isinstance(error, ConnectorError | OSError) else error
        level = logging.WARNING if unexpected is None else logging.ERROR
        _log.log(level, "receiving replies failed", extra={"reason": str(error)}, exc_info=unexpected)
        if unexpected is not None:
            self._sources.sought.clear()
        commands = len(self._commands)  # those that come from now on are for the next receiver
        receiver, self._receiver = self._receiver, None
        self._complete_commands(commands, str(error))
        own = () if receiver is None else receiver.awaiting()
        self._complete_calls(f"{_FAILED}: {error}", own, lasting=unexpected is not None)
        self._complete_due(time.monotonic(), self._no_reply)  # those that await a slot
        if receiver is not None:
            receiver.abandon()

    def _stop_all(self) -> None:
        """Completes all commands, and all calls that await a reply."""
        self._complete_commands(len(self._commands), STOPPED)
        self._complete_calls(STOPPED)

    def _complete_commands(self, number: int, reason: str) -> None:
        with suppress(IndexError):  # another thread may complete commands, too
            for _ in range(number):
                self._commands.popleft().result.set_exception(ProviderError(reason))

    def _complete_calls(self, text: str, own: Iterable[Call] = (), *, lasting: bool = True) -> None:
        """Completes all calls that await a reply. Calls go on waiting for a slot.

        Args:
            own: the waiting calls that have a consumer of their own.
            lasting: False = lasting calls go on waiting, too.
        """
        for call in (*self._calls.awaiting(), *own):
            if lasting or not call.lasting:
                self.give_up(call, Failure(ReturnCode.APPRESPONSETIMEOUT, text))


def _has_ended(call: Call, receiver: ReplyReceiver | None) -> bool:
    """Whether the reply to a call would go to a temporary queue that has ended."""
    if call.properties.reply_to is not None:
        return False
    return receiver is None or receiver.temporaries.get(bool(call.selector)) != call.reply_to
