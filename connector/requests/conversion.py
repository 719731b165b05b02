"""Makes calls of business objects, and results of answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from connector.agent_trace import CONVERSION, DETAILS
from connector.businessobjects.dump import dump
from connector.businessobjects.dynamic import as_text
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.types import describe
from connector.errors import ConfigurationError, MalformedData, RequestRefused, SelectorError
from connector.formats.handlers import Handlers
from connector.limits.call import ConversionEnded, call_limited
from connector.log import AT_WORK
from connector.messaging.message import Message
from connector.messaging.selector import compile_selector
from connector.requests.building import build
from connector.requests.pending import Answer, Call, Failure, key_of
from connector.requests.properties import RequestProperties, resolve
from connector.requests.replies import interpret, refills
from connector.requests.response_selector import ResponseSelector
from connector.requests.result import RequestResult
from connector.requests.settings import CORRELATION_ID, MESSAGE_ID, RequestSettings
from connector.status import ReturnCode

_log = logging.getLogger("connector.requests")

_LEAST_SECONDS: Final = 0.5
"""Seconds for the conversion of a reply that comes at the end of the time of its request."""
_MOST_STATIC: Final = 1000
"""Number of kept properties of requests without a dynamic meta-object."""


class RequestConverter:
    """Converts business objects to calls, and answers to results. Thread-safe.

    Args:
        deployment: directory that plug-in paths are relative to.
    """

    def __init__(self, settings: RequestSettings, deployment: str) -> None:
        self._settings = settings
        self._connector = settings.connector
        self._trace = settings.trace
        self._deployment = Path(deployment)
        self._lock = threading.Lock()
        self._handlers: list[Handlers] = []
        self._selectors: dict[tuple[str, str], ResponseSelector | None] = {}
        self._static: dict[tuple[str, str, int | None], RequestProperties] = {}

    def call(
        self, name: str, data: Mapping[str, Any] | BusinessObject, timeout: int | None
    ) -> Call | RequestResult:
        """Returns a call that can be sent, or the result that says why there is none.

        Raises:
            UnknownBusinessObject, MalformedData: see :meth:`connector.requests.contract.Requests.request`.
        """
        bo = self._object(name, data)
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int)):
            raise MalformedData(f"timeout: found {describe(timeout)}, expected milliseconds")
        try:
            properties = self._properties(bo, timeout)
            selector = self._response_selector(bo) if properties.synchronous else ""
            with self._borrowed_handlers(bo, properties) as handlers:
                message = build(bo, properties, self._settings, handlers)
            self._log_conversion("object converted", bo, message, properties)
        except (RequestRefused, SelectorError, ConfigurationError) as error:
            what = "its response selector: " if isinstance(error, SelectorError) else ""
            text = str(error) if str(error).startswith(f"{bo.type}.") else f"{name}: {what}{error}"
            return RequestResult(ReturnCode.FAIL, bo, text, refused=True)
        return Call(bo, properties, message, selector or self._own_selector(message))

    def result(self, call: Call, answer: Answer) -> RequestResult:
        """Returns the result of a call."""
        if isinstance(answer, Failure):
            return RequestResult(answer.status, call.bo, answer.text, answer.not_sent, answer.refused)
        try:
            with self._borrowed_handlers(call.bo, call.properties, call.message) as handlers:
                convert = partial(interpret, answer, call.bo, call.properties, self._settings, handlers)
                if refills(answer, self._settings) and not handlers.is_contained(*call.properties.handler):
                    result = self._convert_with_limits(convert, call)
                else:
                    result = convert()
            self._log_conversion("reply converted", result.object, answer, call.properties)
            return result
        except ConversionEnded as ended:
            text = f"the reply {answer.message_id} cannot be read: {ended}"
            return RequestResult(ReturnCode.FAIL, call.bo, text)
        except Exception as error:
            _log.exception("converting a reply to a result failed")
            text = (
                f"the reply {answer.message_id} could not be made a result: {type(error).__name__}: {error}"
            )
            return RequestResult(ReturnCode.FAIL, call.bo, text)

    def _convert_with_limits(self, convert: Callable[[], RequestResult], call: Call) -> RequestResult:
        """Converts a reply in a child process, within the time of the request.

        The data handler runs code or rules of the deployment on the body of a stranger. In this process it
        could hold up all other requests.

        Raises:
            ConversionEnded: the conversion took too long, or its process has ended.
        """
        settings = self._settings
        timeout, name = settings.connector.convert_timeout, "convert_timeout"
        # A reply may come before its call has a deadline.
        whole = (call.properties.response_timeout or 0) / 1000
        left = max(_LEAST_SECONDS, min(whole, call.deadline - time.monotonic()))
        if left < timeout:
            timeout, name = round(left, 3), "ResponseTimeout"
        return call_limited(
            convert,
            timeout,
            settings.connector.worker_memory,
            property_name=name,
            shared=(settings.definitions,),
        )

    def _object(self, name: str, data: Mapping[str, Any] | BusinessObject) -> BusinessObject:
        """Returns the client's own copy of the caller's object."""
        definitions = self._settings.definitions
        definition, verb = definitions.find(name)
        is_object = False
        if isinstance(data, BusinessObject):
            if data.type != definition.name:
                raise MalformedData(
                    f"{name}: found a business object of type {data.type}, expected {definition.name}"
                )
            is_object, data = True, data.as_dict()
        elif not isinstance(data, Mapping):
            raise MalformedData(f"{name}: found {describe(data)}, expected a mapping with the attributes")
        bo = BusinessObject(definitions, definition.name, verb)
        bo.set_values(data, keeps_null=is_object)
        finish(bo, use_defaults=self._connector.use_defaults)
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

    def _response_selector(self, bo: BusinessObject) -> str:
        """Returns the response selector of the verb with its values, or empty if the verb has none.

        Raises:
            SelectorError: the selector is not valid. Compiled here, because the listener has no caller to
                tell.
        """
        key = (bo.type, bo.verb or "")
        if key not in self._selectors:
            verb = bo.definition.verbs[key[1]]
            self._selectors[key] = ResponseSelector.parse(
                verb.app_specific_info, self._connector.response_selector_quoting
            )
        found = self._selectors[key]
        return "" if found is None else compile_selector(found.fill(bo)).text

    def _own_selector(self, message: Message) -> str:
        """Returns a selector for the reply that repeats the value set by the meta-objects.

        Returns an empty text if none is set.
        """
        wanted, field = self._connector.reply_matching.request, self._connector.reply_matching.reply
        if wanted == MESSAGE_ID:
            return ""
        value = message.correlation_id if wanted == CORRELATION_ID else message.properties.get(wanted)
        if value is None:
            return ""
        key = key_of(as_text(value)).replace("'", "''")
        text = f"{field} IN ('{key}', 'ID:{key}')"
        if not isinstance(value, str):  # the reply may repeat the value with its type, or as text
            text += f" OR {field} = {as_text(value).upper()}"
        return text

    @contextmanager
    def _borrowed_handlers(
        self, bo: BusinessObject, properties: RequestProperties, message: Message | None = None
    ) -> Iterator[Handlers]:
        """Lends data handlers that no other thread uses meanwhile, as their contract demands.

        What they log has the fields of the event whose process makes the request, or else of the request.

        Args:
            message: of the request, if it is made already.
        """
        before = AT_WORK.set(
            AT_WORK.get()
            or {
                "message_id": None if message is None else message.message_id,
                "destination": str(properties.output_destination),
                "object": bo.type,
                "verb": bo.verb,
            }
        )
        with self._lock:
            handlers = self._handlers.pop() if self._handlers else None
        if handlers is None:
            handlers = Handlers(self._settings.handlers, self._settings.definitions, self._deployment)
        try:
            yield handlers
        finally:
            AT_WORK.reset(before)
            with self._lock:
                self._handlers.append(handlers)

    def _log_conversion(
        self, text: str, bo: BusinessObject, message: Message, properties: RequestProperties
    ) -> None:
        if self._trace.level < CONVERSION:
            return
        fields = {"object": bo.type, "verb": bo.verb, "message_id": message.message_id}
        size, handler = len(message.body), properties.handler[0]
        destination = message.destination or str(properties.output_destination)
        self._trace(CONVERSION, text, **fields, destination=destination, data_handler=handler, bytes=size)
        if self._trace.level >= DETAILS:
            self._trace(DETAILS, "business object", **fields, values=dump(bo))
