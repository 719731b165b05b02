"""The request client: takes business objects and returns results.

Source: WBI Adapter for JMS, "Request message processing".

One client lives in every process that makes requests. The steps of a request::

    caller      conversion.py        object to message: dynamic over static over Default over connector
    caller      slots.py             at most pool_size. Further requests wait, each up to pool_timeout
    caller      sender.py            one commit for many requests, before the reply is awaited. At a broker in
                                     another thread, because a full queue holds the commit up
    listener    reply_listener.py    one thread takes all replies, and ends calls at their deadlines
    caller      conversion.py        reply to result: the result property decides

Each request completes exactly once: with its reply, at its deadline, by a failure, or at the end of the
client.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final

from connector.agent_trace import DETAILS, HANDOVER
from connector.businessobjects.instance import BusinessObject
from connector.core.session import CoreSession, sole_session
from connector.errors import CapabilityError, ConnectorError, ProviderError, RequestRefused, SettlementError
from connector.messaging.client import AcknowledgeMode
from connector.messaging.destination import Destination
from connector.messaging.provider import Capabilities, Connection, SessionClient
from connector.messaging.roles import Recovering
from connector.requests.broker_replies import BrokerLink, BrokerReplies
from connector.requests.contract import Requests
from connector.requests.conversion import RequestConverter
from connector.requests.late import LateReplies
from connector.requests.pending import Call, Failure, PendingCalls, key_of
from connector.requests.reply_listener import ReplyListener
from connector.requests.reply_receiver import ReplyReceiver, ReplySources
from connector.requests.request_history import HistorySpec, RequestHistory
from connector.requests.result import RequestResult
from connector.requests.sender import OutgoingRequest, Senders
from connector.requests.settings import CORRELATION_ID, MESSAGE_ID, RequestSettings
from connector.requests.slots import Slots
from connector.requests.stored_replies import StoredReplies
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

_NAME: Final = "connector-requests"
_HELPER_THREADS: Final = 8
_MOST_THREADS: Final = 64
"""Number of threads that send requests of ``request_async``, and of threads that read their replies. A full
queue of a broker holds a thread up. Further requests wait for a thread."""
_SEND: Final = "send"
_FINISH: Final = "finish"
"""Separate thread pools: a slow callback of a future delays no other request."""
_SEND_SECONDS: Final = 1.0
"""Seconds that a broker may take for a request, although its ResponseTimeout is shorter."""
_WARNING_SECONDS: Final = 10.0
"""Seconds between two warnings that requests have to wait."""

_SENT: Final = Failure(ReturnCode.SUCCEED)
_STOPPING: Final = Failure(ReturnCode.FAIL, "the adapter is stopping; nothing was sent", not_sent=True)


class RequestFuture(Future[RequestResult]):
    """The future result of a request: ``await`` waits in a coroutine, ``result()`` in a thread."""

    def __await__(self) -> Generator[Any, None, RequestResult]:
        return asyncio.wrap_future(self).__await__()


class RequestClient(Requests):
    """A request client, which connects when the first request is made.

    The listener's selector names the connection that sent a request, so there are two senders. Requests whose
    reply repeats their key use the first. Asynchronous requests, and requests with a selector, use the
    second. The listener's selector matches no reply to the second group.

    Args:
        connect: makes a provider connection. Called for each sender, the listener, and again after failures.
        deployment: directory that plug-in paths are relative to.
        history: of the application. None = requests are not written there.
    """

    def __init__(
        self,
        settings: RequestSettings,
        connect: Callable[[], Connection],
        capabilities: Capabilities,
        deployment: str,
        history: HistorySpec | None = None,
    ) -> None:
        self._history = RequestHistory(history)
        self._settings = settings
        self._connector = settings.connector
        self._connect = connect
        self._trace = settings.trace
        self._capabilities = capabilities
        self._converter = RequestConverter(settings, deployment)
        self._most = settings.connector.session_pool_size_for_requests
        self._slots = Slots(self._most)
        self._late = LateReplies(settings.late_replies)
        self._broker = BrokerLink(connect) if capabilities.transactions else None
        self._listener = ReplyListener(self._open_receiver, settings)
        self._sender = Senders(self._open_sender, apart=self._broker is not None)
        self._other_sender = Senders(self._open_sender, apart=self._broker is not None)
        self._token = secrets.token_hex(8)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._helpers: dict[str, ThreadPoolExecutor] = {}
        self._stopping = False
        self._last_warning = 0.0

    # -- requests ------------------------------------------------------------------------------------

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        call = self._converter.call(name, data, timeout)
        if isinstance(call, RequestResult):
            return self._log_result(call)
        if call.properties.synchronous:
            slot = self._acquire_slot()
            with suppress(TimeoutError, CancelledError):
                slot.result(self._connector.pool_timeout)
            slot.cancel()  # does nothing if the slot was granted
            self._send_in_slot(call, slot)
        else:
            self._send(call)
        return self._result(call)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestFuture:
        future = RequestFuture()
        future.set_running_or_notify_cancel()  # a sent request cannot be cancelled
        call = self._converter.call(name, data, timeout)
        if isinstance(call, RequestResult):
            future.set_result(self._log_result(call))
            return future
        call.answer.add_done_callback(lambda _: self._run_in_pool(_FINISH, self._finish, call, future))
        if not call.properties.synchronous:
            self._run_in_pool(_SEND, self._send, call)
            return future
        slot = call.slot = self._acquire_slot()
        if slot.done() and self._broker is None:  # a full queue of a broker would hold up the caller
            self._send_in_slot(call, slot)
            return future
        if not slot.done():
            self._listener.await_slot(call, time.monotonic() + self._connector.pool_timeout)
        slot.add_done_callback(lambda slot: self._run_in_pool(_SEND, self._send_in_slot, call, slot))
        return future

    def refuse(self) -> None:
        self._stopping = True
        self._slots.close()

    def stop(self, timeout: float = 0.0) -> None:
        self.refuse()
        self._slots.wait_until_unused(timeout)
        self._listener.stop()
        for sender in (self._sender, self._other_sender):
            try:
                sender.close()
            except (ProviderError, OSError) as error:
                _log.warning("closing a connection for requests failed", extra={"reason": str(error)})
        if self._broker is not None:
            self._broker.close()
        with self._lock:
            helpers, self._helpers = self._helpers, {}
        is_helper = threading.current_thread().name.startswith(_NAME)  # a callback may call stop
        for pool in helpers.values():
            pool.shutdown(wait=not is_helper)

    # -- slots ---------------------------------------------------------------------------------------

    def _acquire_slot(self) -> Future[None]:
        slot = self._slots.acquire()
        now = time.monotonic()
        if not slot.done() and now - self._last_warning > _WARNING_SECONDS:
            self._last_warning = now
            _log.warning(
                "requests wait, because the limit SessionPoolSizeForRequests is reached",
                extra={
                    "in_flight": self._most,
                    "pool_timeout": self._connector.pool_timeout,
                },
            )
        return slot

    def _send_in_slot(self, call: Call, slot: Future[None]) -> None:
        """Sends a request that has a slot, and frees the slot when the request completes."""
        if not slot.cancelled():
            call.answer.add_done_callback(lambda _: self._slots.release())
            self._send(call)
        elif self._stopping:
            call.complete(_STOPPING)
        else:
            text = (
                f"{self._most} requests are in flight (SessionPoolSizeForRequests), and none "
                f"has ended for this one within {self._connector.pool_timeout:g} s (pool_timeout); "
                "nothing was sent"
            )
            call.complete(Failure(ReturnCode.FAIL, text, not_sent=True))

    # -- sending, in any thread ----------------------------------------------------------------------

    def _send(self, call: Call) -> None:
        """Sends a request. An asynchronous request completes at once, others complete later."""
        properties = call.properties
        try:
            if self._stopping:
                call.complete(_STOPPING)
            elif properties.synchronous:
                self._send_and_await(call)
            else:
                call.message.reply_to = None if properties.reply_to is None else str(properties.reply_to)
                self._commit(self._other_sender, call)
                call.complete(_SENT)
        except Exception as error:
            failure = _failure(error, call)
            self._listener.give_up(call, _STOPPING if failure.not_sent and self._stopping else failure)
            may_be_sent = call.outgoing is not None and call.outgoing.attempted
            if may_be_sent and call.lasting and not call.selector and call.reply_to is not None:
                self._listener.take_by_id(call, call.reply_to)  # its reply is a late one

    def _send_and_await(self, call: Call) -> None:
        reply_to = call.properties.reply_to or self._temporary(shared=bool(call.selector))
        if reply_to == self._settings.late_replies:
            raise RequestRefused(
                f"ReplyToDestination: {reply_to} gets the copies of late replies (late_replies); "
                "set another destination"
            )
        call.reply_to = reply_to
        call.lasting = self._broker is not None and call.properties.reply_to is not None
        call.message.reply_to = str(reply_to)
        if call.selector:
            self._send_with_selector(call, reply_to)
        elif self._connector.reply_matching.request == MESSAGE_ID:
            self._send_with_message_id(call, reply_to)
        else:
            self._send_with_token(call, reply_to)
        call.deadline = time.monotonic() + (call.properties.response_timeout or 0) / 1000
        self._listener.await_reply(call)

    def _send_with_selector(self, call: Call, reply_to: Destination) -> None:
        """The reply is the message that the selector matches, unless the reply names another request."""

        def expect(message_id: str, sent_ids: str) -> None:
            if self._connector.reply_matching.request == MESSAGE_ID:
                self._listener.expect(call, key_of(message_id))

        self._commit(self._other_sender, call, expect)
        self._listener.take_by_selector(call, reply_to)

    def _send_with_message_id(self, call: Call, reply_to: Destination) -> None:
        """The reply repeats the message id, which contains the id of the sending connection.

        The ids of a broker's client have no pattern.
        """

        def expect(message_id: str, sent_ids: str) -> None:
            self._listener.expect(call, key_of(message_id), sent_ids)

        if not self._capabilities.chooses_ids:
            self._commit(self._sender, call, expect)
            if call.lasting:
                self._listener.take_by_id(call, reply_to)
            return
        self._take_from(call, reply_to, self._sender.sent_ids)
        self._commit(self._sender, call, expect)
        self._take_from(call, reply_to, self._sender.sent_ids)

    def _send_with_token(self, call: Call, reply_to: Destination) -> None:
        """The reply repeats a correlation id or a property, which the request gets here."""
        token = f"{self._token}-{next(self._numbers)}"
        if self._connector.reply_matching.request == CORRELATION_ID:
            call.message.correlation_id = token
        else:
            call.message.set_property(self._connector.reply_matching.request, token)
        self._take_from(call, reply_to, lambda: f"%{self._token}-%")
        self._listener.expect(call, token)
        self._commit(self._sender, call)
        self._take_from(call, reply_to, lambda: f"%{self._token}-%")

    def _take_from(self, call: Call, reply_to: Destination, pattern: Callable[[], str]) -> None:
        """Takes replies from a reply destination, before and after a request is sent.

        A request with yet another destination may have closed the consumer meanwhile.
        """
        if call.properties.reply_to is None:
            return  # a temporary queue has its consumer
        try:
            self._listener.take_from(reply_to, pattern)
        except ProviderError:
            if call.outgoing is None or not call.lasting:
                raise
            self._listener.take_by_id(call, reply_to)  # on the next connection

    def _temporary(self, *, shared: bool) -> Destination:
        if not self._capabilities.temporary_destinations:
            raise CapabilityError(
                "a synchronous request needs a reply destination, and this provider has no temporary queues: "
                "set ReplyToDestination, in a meta-object or in connector:"
            )
        return self._listener.temporary(shared=shared)

    def _open_sender(self) -> CoreSession:
        connection: SessionClient = self._connect() if self._broker is None else self._broker.session()
        return self._session(connection, AcknowledgeMode.TRANSACTED)

    def _open_receiver(self, sources: ReplySources, calls: PendingCalls) -> ReplyReceiver:
        if self._broker is not None:
            broker = self._broker.open()
            try:
                return BrokerReplies(broker, sources, calls, self._late, self._settings)
            except BaseException:
                broker.abandon()  # nobody would take what its consumers get
                raise
        connection = self._connect()
        session = self._session(connection, AcknowledgeMode.INDIVIDUAL, connection)
        try:
            return StoredReplies(session, connection, sources, calls, self._late, self._settings)
        except BaseException:
            session.abandon()
            raise

    def _session(
        self, connection: SessionClient, mode: AcknowledgeMode, recovering: Recovering | None = None
    ) -> CoreSession:
        interval = self._settings.intervals.takeover
        return sole_session(connection, mode, self._capabilities, recovering, takeover_interval=interval)

    def _commit(
        self, sender: Senders, call: Call, before_commit: Callable[[str, str], object] = lambda *_: None
    ) -> None:
        properties, message = call.properties, call.message
        # The expiration keeps a request from being served after its ResponseTimeout. With ResponseTimeout 0
        # the client looks only once, so no expiration is set.
        time_to_live = properties.time_to_live
        if time_to_live is None:
            time_to_live = max(0, properties.response_timeout or 0)
        delay = properties.delivery_delay

        def note(message_id: str, sent_ids: str) -> None:
            self._history.requested(call, message_id)
            before_commit(message_id, sent_ids)

        call.outgoing = OutgoingRequest(properties.output_destination, message, note, time_to_live, delay)
        if properties.synchronous:
            call.outgoing.seconds = max(_SEND_SECONDS, (properties.response_timeout or 0) / 1000)
            call.outgoing.check = partial(self._listener.check, call)
        sender.send(call.outgoing)
        if self._trace.level >= HANDOVER:
            fields = {"message_id": message.message_id, "destination": str(properties.output_destination)}
            self._trace(HANDOVER, "request sent", **fields, object=call.bo.type, verb=call.bo.verb)
            if self._trace.level >= DETAILS:
                self._trace(DETAILS, "message put", **fields, bytes=len(message.body))

    # -- for requests that no thread waits for -------------------------------------------------------

    def _run_in_pool(self, name: str, function: Callable[..., object], *arguments: Any) -> None:
        """Calls a function in a thread of the pool. After a stop calls it in this thread."""
        with self._lock:
            if name not in self._helpers and not self._stopping:
                # As many replies as requests in flight: the conversion of a reply may take its time.
                threads = max(_HELPER_THREADS, min(self._most, _MOST_THREADS))
                self._helpers[name] = ThreadPoolExecutor(threads, f"{_NAME}-{name}")
            helpers = self._helpers.get(name)
        if helpers is not None:
            try:
                helpers.submit(function, *arguments)
                return
            except RuntimeError:
                pass  # the pool was shut down meanwhile
        function(*arguments)

    def _finish(self, call: Call, future: RequestFuture) -> None:
        future.set_result(self._result(call))

    # -- results -------------------------------------------------------------------------------------

    def _result(self, call: Call) -> RequestResult:
        answer = call.answer.result()
        self._history.ended(call, answer, awaited=call.properties.synchronous)
        return self._log_result(self._converter.result(call, answer))

    def _log_result(self, result: RequestResult) -> RequestResult:
        bo = result.object
        if self._trace.level >= HANDOVER:
            outcome = result.status.name
            self._trace(HANDOVER, "request answered", object=bo.type, verb=bo.verb, outcome=outcome)
        if not result.good:
            _log.info(
                "a request has failed",
                extra={
                    "object": bo.type,
                    "verb": bo.verb,
                    "outcome": result.status.name,
                    "reason": result.message,
                },
            )
        return result


def _failure(error: Exception, call: Call) -> Failure:
    """Returns the failure of a request that was not sent, or that may have been sent."""
    outgoing = call.outgoing
    if outgoing is not None and outgoing.attempted and not isinstance(error, SettlementError):
        text = f"the provider failed while the request was sent; it may have been sent: {error}"
        return Failure(ReturnCode.APPRESPONSETIMEOUT, text)
    text = f"the request was not sent: {error}"
    if outgoing is not None and outgoing.not_taken:
        return Failure(ReturnCode.FAIL, text, not_sent=True)
    if isinstance(error, ProviderError | OSError):
        return Failure(ReturnCode.APPRESPONSETIMEOUT, text, not_sent=True)
    if isinstance(error, ConnectorError | ValueError):
        return Failure(ReturnCode.FAIL, text, refused=True)
    _log.error("a request failed with an unexpected exception", exc_info=error)
    return Failure(ReturnCode.FAIL, f"{type(error).__name__}: {error}")
