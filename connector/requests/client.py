"""The request client: takes business objects and returns results.

Source: WBI Adapter for JMS, "Request message processing".

One client lives in every process that makes requests. The steps of a request::

    caller      properties, message        dynamic over static over Default over connector, data handler
    slots       at most pool_size          further requests wait, each up to pool_timeout
    sender      one commit for many        committed before the reply is awaited
    listener    one thread for all         finds replies by correlation id, or by a response selector
    caller      result                     the reply's result property decides

Each request completes exactly once: with its reply, at its deadline, by a failure, or at the end of the
client.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from connector.businessobjects.handlers import Handlers
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.types import describe
from connector.errors import (
    ConfigurationError,
    MalformedData,
    RequestRefused,
    SelectorError,
)
from connector.messaging.message import Message
from connector.messaging.provider import Capabilities, Connection
from connector.messaging.selector import compile_selector
from connector.requests.building import build
from connector.requests.exchange import Exchange
from connector.requests.pending import Call, Failure
from connector.requests.properties import RequestProperties, resolve
from connector.requests.replies import interpret
from connector.requests.response_selector import ResponseSelector
from connector.requests.result import RequestResult
from connector.requests.settings import RequestSettings
from connector.requests.slots import SlotRequest, Slots
from connector.requests.timer import Timer
from connector.status import ReturnCode
from connector.trace import CONVERSION, DETAILS, HANDOVER, dump

_log = logging.getLogger("connector.requests")

_GRACE_SECONDS: Final = 5.0
"""Seconds after its deadline at which a request ends although the provider does not answer."""
_NAME: Final = "connector-requests"
_HELPER_THREADS: Final = 8
"""Number of threads that send requests of ``request_async``, and of threads that read their replies."""
_SENDING: Final = "send"
_FINISHING: Final = "finish"
"""Separate thread pools: a slow callback of a future delays no other request."""
_MOST_STATIC: Final = 1000
_WARNING_SECONDS: Final = 10.0
"""Seconds between two warnings that requests have to wait."""

_STOPPING: Final = Failure(ReturnCode.FAIL, "the adapter is stopping; nothing was sent", not_sent=True)
_SILENT: Final = Failure(
    ReturnCode.APPRESPONSETIMEOUT,
    f"the provider has not answered for {_GRACE_SECONDS:.0f} s beyond ResponseTimeout",
)


class RequestFuture(Future[RequestResult]):
    """The future result of a request: ``await`` waits in a coroutine, ``result()`` in a thread."""

    def __await__(self) -> Generator[Any, None, RequestResult]:
        return asyncio.wrap_future(self).__await__()


@dataclass(frozen=True, slots=True)
class RequestStats:
    """Counters of a request client.

    Args:
        in_flight: requests that are being sent or await a reply now.
        waiting: requests that wait for a slot.
        completed: number of completed requests by the name of their return code.
        late_replies, duplicate_replies: replies that no request awaited any more.
    """

    in_flight: int
    waiting: int
    completed: Mapping[str, int]
    late_replies: int
    duplicate_replies: int


class RequestClient:
    """Implements :class:`connector.broker.requesting.Requests`. Connects when the first request is made.

    Args:
        settings: of the adapter.
        connect: makes a provider connection. Called for the sender, the listener, and again after failures.
        capabilities: of the provider.
        deployment: directory that plug-in paths are relative to.
    """

    def __init__(
        self,
        settings: RequestSettings,
        connect: Callable[[], Connection],
        capabilities: Capabilities,
        deployment: str,
    ) -> None:
        self._settings = settings
        self._trace = settings.trace
        self._deployment = Path(deployment)
        self._exchange = Exchange(settings, connect, capabilities)
        self._slots = Slots(settings.pool_size)
        self._timer = Timer()
        self._lock = threading.Lock()
        self._completed: Counter[str] = Counter()
        self._helpers: dict[str, ThreadPoolExecutor] = {}
        self._handlers: list[Handlers] = []
        self._selectors: dict[tuple[str, str], ResponseSelector | None] = {}
        self._static: dict[tuple[str, str, int | None], RequestProperties] = {}
        self._stopping = False
        self._complained = 0.0

    # -- requests ------------------------------------------------------------------------------------

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """See :meth:`connector.broker.requesting.Requests.request`."""
        made = self._make(name, data, timeout)
        if isinstance(made, RequestResult):
            return self._counted(made)
        if not made.properties.synchronous:
            self._send_only(made)
        elif not self._slots.try_take() and not self._wait_for_slot():
            made.complete(self._refusal())
        else:
            self._begin(made, attended=True)
        self._exchange.attend(made)
        try:
            answer = made.answer.result(
                made.deadline - time.monotonic() + _GRACE_SECONDS if made.reply_to else None
            )
        except TimeoutError:
            self._exchange.give_up(made, _SILENT)
            answer = made.answer.result()
        return self._counted(self._result(made, answer))

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestFuture:
        """See :meth:`connector.broker.requesting.Requests.request_async`."""
        future = RequestFuture()
        future.set_running_or_notify_cancel()  # a sent request cannot be cancelled
        made = self._make(name, data, timeout)
        if isinstance(made, RequestResult):
            future.set_result(self._counted(made))
            return future
        call = made
        call.answer.add_done_callback(lambda _: self._help(_FINISHING, self._finish, call, future))
        if not call.properties.synchronous:
            self._help(_SENDING, self._send_only, call)
        elif self._slots.try_take():
            self._begin_watched(call)
        else:
            end = time.monotonic() + self._settings.pool_timeout
            slot_request = self._queue(lambda slot_request: self._granted(slot_request, call))
            self._timer.at(end, lambda: self._cancel_wait(slot_request, call), call.answer.done)
        return future

    def refuse(self) -> None:
        """See :meth:`connector.broker.requesting.Requests.refuse`."""
        self._stopping = True
        self._slots.cancel_all()

    def stop(self, timeout: float = 0.0) -> None:
        """See :meth:`connector.broker.requesting.Requests.stop`."""
        self.refuse()
        self._slots.wait_until_unused(timeout)
        self._exchange.stop()
        self._timer.stop()
        with self._lock:
            helpers, self._helpers = self._helpers, {}
        is_helper = threading.current_thread().name.startswith(_NAME)  # a callback may call stop
        for pool in helpers.values():
            pool.shutdown(wait=not is_helper)

    @property
    def stats(self) -> RequestStats:
        """The counters at this moment."""
        with self._lock:
            completed = dict(self._completed)
        late = self._exchange.late
        return RequestStats(self._slots.used, self._slots.waiting, completed, late.late, late.duplicate)

    # -- making --------------------------------------------------------------------------------------

    def _make(
        self, name: str, data: Mapping[str, Any] | BusinessObject, timeout: int | None
    ) -> Call | RequestResult:
        """Returns the request, ready to be sent, or the result that says why there is none."""
        bo = self._object(name, data)
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int)):
            raise MalformedData(f"timeout: found {describe(timeout)}, expected milliseconds")
        if self._stopping:
            return self._failed(bo, _STOPPING)
        try:
            properties = self._properties(bo, timeout)
            selector = self._selector(bo) if properties.synchronous else ""
            with self._borrowed_handlers() as handlers:
                message = build(bo, properties, self._settings, handlers)
            if self._trace.level >= CONVERSION:
                self._trace_conversion("object converted", bo, message, properties)
        except (RequestRefused, SelectorError, ConfigurationError) as error:
            what = "its response selector: " if isinstance(error, SelectorError) else ""
            text = str(error) if str(error).startswith(f"{bo.type}.") else f"{name}: {what}{error}"
            return self._failed(bo, Failure(ReturnCode.FAIL, text, refused=True))
        return Call(bo, properties, message, selector)

    def _object(self, name: str, data: Mapping[str, Any] | BusinessObject) -> BusinessObject:
        """Returns the client's own copy of the caller's object."""
        definitions = self._settings.definitions
        definition, verb = definitions.find(name)
        if isinstance(data, BusinessObject):
            if data.type != definition.name:
                raise MalformedData(f"{name} was asked for with a {data.type}")
            data = data.as_dict()
        elif not isinstance(data, Mapping):
            raise MalformedData(f"{name}: found {describe(data)}, expected a mapping with the attributes")
        bo = BusinessObject(definitions, definition.name, verb, data)
        finish(bo, use_defaults=self._settings.use_defaults)
        return bo

    def _properties(self, bo: BusinessObject, timeout: int | None) -> RequestProperties:
        """Returns the properties of a request. Requests without a dynamic meta-object share them."""
        holder = bo.definition.dynamic_metaobject
        if holder is not None and holder in bo:
            return resolve(bo, self._settings, timeout=timeout)
        key = (bo.type, bo.verb or "", timeout)
        found = self._static.get(key)
        if found is None:
            if len(self._static) >= _MOST_STATIC:  # callers may pass any number of time-outs
                self._static.clear()
            found = self._static[key] = resolve(bo, self._settings, timeout=timeout)
        return found

    def _selector(self, bo: BusinessObject) -> str:
        """Returns the response selector of the verb with its values, or empty if the verb has none.

        Raises:
            SelectorError: the selector is not valid. Compiled here, because the listener has no caller to
                tell.
        """
        key = (bo.type, bo.verb or "")
        if key not in self._selectors:
            verb = bo.definition.verbs[key[1]]
            self._selectors[key] = ResponseSelector.parse(verb.app_specific_info, self._settings.quoting)
        found = self._selectors[key]
        return "" if found is None else compile_selector(found.fill(bo)).text

    @contextmanager
    def _borrowed_handlers(self) -> Iterator[Handlers]:
        """Lends data handlers that no other thread uses meanwhile, as their contract demands."""
        with self._lock:
            handlers = self._handlers.pop() if self._handlers else None
        if handlers is None:
            handlers = Handlers(self._settings.handlers, self._settings.definitions, self._deployment)
        try:
            yield handlers
        finally:
            with self._lock:
                self._handlers.append(handlers)

    # -- sending, in any thread ----------------------------------------------------------------------

    def _wait_for_slot(self) -> bool:
        granted = threading.Event()
        slot_request = self._queue(lambda _: granted.set())
        granted.wait(self._settings.pool_timeout)
        return not self._slots.cancel(slot_request)

    def _queue(self, granted: Callable[[SlotRequest], object]) -> SlotRequest:
        """Waits for a slot. Any thread may call ``granted``, even before this method returns."""
        now = time.monotonic()
        if now - self._complained > _WARNING_SECONDS:
            self._complained = now
            _log.warning(
                "requests wait: as many as SessionPoolSizeForRequests are in flight",
                extra={"in_flight": self._settings.pool_size, "pool_timeout": self._settings.pool_timeout},
            )
        return self._slots.queue(granted)

    def _begin(self, call: Call, *, attended: bool = False) -> None:
        """Sends a request that has a slot, and frees the slot when the request completes."""
        call.answer.add_done_callback(lambda _: self._slots.release())
        if self._stopping:
            call.complete(_STOPPING)
        else:
            self._exchange.begin(call, attended=attended)

    def _send_only(self, call: Call) -> None:
        """Sends a request that awaits no reply, and so needs no slot."""
        if self._stopping:
            call.complete(_STOPPING)
        else:
            self._exchange.begin(call)

    def _refusal(self) -> Failure:
        if self._stopping:
            return _STOPPING
        return Failure(
            ReturnCode.FAIL,
            f"{self._settings.pool_size} requests are in flight (SessionPoolSizeForRequests), and none has "
            f"ended for this one within {self._settings.pool_timeout:g} s (pool_timeout); nothing was sent",
            not_sent=True,
        )

    # -- for requests that no thread waits for -------------------------------------------------------

    def _help(self, how: str, what: Callable[..., object], *arguments: Any) -> None:
        with self._lock:
            if how not in self._helpers and not self._stopping:
                self._helpers[how] = ThreadPoolExecutor(_HELPER_THREADS, f"{_NAME}-{how}")
            helpers = self._helpers.get(how)
        if helpers is not None:
            try:
                helpers.submit(what, *arguments)
                return
            except RuntimeError:
                pass  # the pool was shut down meanwhile
        what(*arguments)

    def _granted(self, slot_request: SlotRequest, call: Call) -> None:
        if slot_request.has_slot:
            self._help(_SENDING, self._begin_watched, call)
        else:
            call.complete(_STOPPING)

    def _cancel_wait(self, slot_request: SlotRequest, call: Call) -> None:
        if self._slots.cancel(slot_request):
            call.complete(self._refusal())

    def _begin_watched(self, call: Call) -> None:
        self._begin(call)
        if call.reply_to is not None and not call.completed:
            end = call.deadline + _GRACE_SECONDS
            self._timer.at(end, lambda: self._exchange.give_up(call, _SILENT), call.answer.done)

    def _finish(self, call: Call, future: RequestFuture) -> None:
        future.set_result(self._counted(self._result(call, call.answer.result())))

    # -- results -------------------------------------------------------------------------------------

    def _result(self, call: Call, answer: Message | Failure) -> RequestResult:
        if isinstance(answer, Failure):
            return self._failed(call.bo, answer)
        try:
            with self._borrowed_handlers() as handlers:
                result = interpret(answer, call.bo, call.properties, self._settings, handlers)
            if self._trace.level >= CONVERSION:
                self._trace_conversion("reply converted", result.object, answer, call.properties)
            return result
        except Exception as error:
            _log.exception("a reply could not be made a result")
            text = (
                f"the reply {answer.message_id} could not be made a result: {type(error).__name__}: {error}"
            )
            return RequestResult(ReturnCode.FAIL, call.bo, text)

    def _trace_conversion(
        self, text: str, bo: BusinessObject, message: Message, properties: RequestProperties
    ) -> None:
        fields = {"object": bo.type, "verb": bo.verb, "message_id": message.message_id}
        size, handler = len(message.body), properties.handler[0]
        destination = message.destination or str(properties.output_destination)
        self._trace(CONVERSION, text, **fields, destination=destination, data_handler=handler, bytes=size)
        if self._trace.level >= DETAILS:
            self._trace(DETAILS, "business object", **fields, values=dump(bo))

    @staticmethod
    def _failed(bo: BusinessObject, failure: Failure) -> RequestResult:
        return RequestResult(failure.status, bo, failure.text, failure.not_sent, failure.refused)

    def _counted(self, result: RequestResult) -> RequestResult:
        with self._lock:
            self._completed[result.status.name] += 1
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
