"""Sinks: the code that delivers a business object to a subscriber (design, sections 4 and 6).

An *external* sink is called: what it does is done at once, so it stands between two lines of the
journal. A *prepared* sink only makes a message; the settlement of the event sends it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import tenacity

from connector.broker.lazy_requests import LazyRequests
from connector.broker.requesting import Requests
from connector.broker.subscriptions import SentHeaders
from connector.businessobjects.datahandler import HandlerFailed, message_body
from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.rules import JMS_TYPE, set_format
from connector.errors import MalformedData, TemporaryFailure
from connector.messaging.message import NON_PERSISTENT, PERSISTENT, Message
from connector.requests.result import RequestResult

EVENT_ID: Final = "connector_event_id"
"""The property of what is sent for an event: the JMSMessageID of that event."""

_NO_REQUESTS: Final = LazyRequests(None, "")


@dataclass(slots=True)
class Event:
    """What a business process is told beside the object.

    Args:
        id: the JMSMessageID, the same at every attempt.
        input_destination: where the message was taken from, ``queue://orders``.
        delivery_count: 1 at the first attempt; more when this may be a repetition. JMSXDeliveryCount of the
            message and of the dynamic meta-object are the same number.
        message: headers and properties of the message; its body stays as it arrived.
        subscription: the name of the subscription whose process is called.
        requests: makes the requests of the process; in a test of one, whatever answers them there.
    """

    id: str
    input_destination: str
    delivery_count: int
    message: Message
    subscription: str = ""
    requests: Requests = field(default=_NO_REQUESTS, repr=False, compare=False)

    def request(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> RequestResult:
        """Asks an application, and waits for its reply where a ResponseTimeout says so.

        The process goes on meanwhile as far as its own ``timeout`` is concerned. A process that is called
        again (``delivery_count`` above 1) asks again.

        Args:
            name: object and verb, ``Customer.Retrieve``.
            data: the attributes, the dynamic meta-object among them; not changed.
            timeout: ResponseTimeout of this request in ms; below 0 = do not wait.

        Raises:
            UnknownBusinessObject: no such business object, or it has no such verb.
            MalformedData: the data do not fit the business object.
            CapabilityError: no requests can be made here.
        """
        return self.requests.request(name, data, timeout=timeout)

    def request_async(
        self, name: str, data: Mapping[str, Any] | BusinessObject, *, timeout: int | None = None
    ) -> Future[RequestResult]:
        """As :meth:`request`, without waiting.

        What is not complete when the process returns may never be sent: its worker may end.
        """
        return self.requests.request_async(name, data, timeout=timeout)


class ExternalSink(Protocol):
    """Delivers at once."""

    def deliver(self, bo: BusinessObject, event: Event) -> object:
        """Returning means done; what is returned is the answer, where the subscription replies.

        Raises:
            Unsubscribed, NotActive, TemporaryFailure: as design, section 7.
            Exception: anything else: failed, with its text.
        """


class PreparedSink(Protocol):
    """Makes a message; nothing is visible until settlement."""

    def prepare(self, bo: BusinessObject, event: Event) -> Message:
        """The message for an object.

        Raises:
            MalformedData: the object cannot be written in the sink's format.
            ValueError: no message can carry what it has to say.
        """


class Watch(Protocol):
    """Ends the worker when a call takes too long."""

    def arm(self, seconds: float, what: str) -> None: ...

    def disarm(self) -> None: ...


class ProcessSink:
    """A business process: a Python function ``f(bo, event)``.

    Args:
        function: the process.
        name: of the subscription.
        retries: calls after the first one, for TemporaryFailure only; the wait between two doubles
            from 0.1 s to 10 s at most.
        timeout: seconds one call may take; None = no limit.
        watch: what ends this worker when a call takes longer.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, *, retries: int, timeout: float | None, watch: Watch
    ) -> None:
        self.function = function
        self._name = name
        self._timeout = timeout
        self._watch = watch
        self._retrying = (
            tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(TemporaryFailure),
                stop=tenacity.stop_after_attempt(retries + 1),
                wait=tenacity.wait_exponential(multiplier=0.1, max=10.0) + tenacity.wait_random(0.0, 0.1),
                reraise=True,
            )
            if retries
            else None
        )

    def deliver(self, bo: BusinessObject, event: Event) -> object:
        if self._retrying is not None:
            return self._retrying(self._call, bo, event)
        return self._call(bo, event)

    def _call(self, bo: BusinessObject, event: Event) -> object:
        if self._timeout is None:
            return self.function(bo, event)
        self._watch.arm(self._timeout, self._name)
        try:
            return self.function(bo, event)
        finally:
            self._watch.disarm()


class DestinationSink:
    """A destination of the same provider.

    Args:
        to_body: writes an object in the format of the sink.
        headers_of: what the configuration says of the message, by object and verb.
        format_property: MessageFormatProperty: where the message says its format.
        persistent: whether the message is to survive a crash of the provider, unless DeliveryMode says so.
    """

    def __init__(
        self,
        to_body: Callable[[BusinessObject], bytes | str],
        headers_of: Callable[[str, str], SentHeaders],
        *,
        format_property: str = JMS_TYPE,
        persistent: bool = True,
    ) -> None:
        self._to_body = to_body
        self._headers_of = functools.lru_cache(headers_of)
        self._format_property = format_property
        self._delivery_mode = PERSISTENT if persistent else NON_PERSISTENT

    def prepare(self, bo: BusinessObject, event: Event) -> Message:
        message_class, body = write_body(self._to_body, bo)
        said = self._headers_of(bo.type, bo.verb or "")
        message = Message(
            body=body,
            message_class=message_class,
            correlation_id=event.message.correlation_id,
            delivery_mode=self._delivery_mode if said.delivery_mode is None else said.delivery_mode,
            priority=event.message.priority if said.priority is None else said.priority,
        )
        for name in ("JMSXGroupID", "JMSXGroupSeq"):  # what belongs together stays together
            if name in event.message.properties:
                message.set_property(name, event.message.properties[name], event.message.property_types[name])
        if event.id:
            message.set_property(EVENT_ID, event.id)
        if said.format is not None:
            set_format(message, said.format, self._format_property)
        return message


def write_body(to_body: Callable[[BusinessObject], bytes | str], bo: BusinessObject) -> tuple[str, bytes]:
    """Message class and body for an object, as a data handler writes it.

    Raises:
        MalformedData: it cannot. HandlerFailed, where it raised anything else.
    """
    try:
        return message_body(to_body(bo))
    except MalformedData:
        raise
    except (Exception, SystemExit) as error:
        raise HandlerFailed(getattr(to_body, "__self__", to_body), error) from error
