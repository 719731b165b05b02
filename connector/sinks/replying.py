"""Replies: the answer of a business process to a request (WBI Adapter for JMS, tables 5 and 6).

Here the process is the application on the other side of a request. The answer becomes a message for the
JMSReplyTo of the request. The message is prepared while the event is processed. The commit that settles the
event sends the message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject, finish
from connector.businessobjects.rules import set_format
from connector.errors import DestinationError, MalformedData
from connector.messaging.destination import Destination, known_destination, parse_destination
from connector.messaging.history import HOPS, hops_of
from connector.messaging.message import Message, PropertyValue
from connector.operate.trace_context import TRACEPARENT, valid_traceparent
from connector.sinks.contract import write_body

if TYPE_CHECKING:
    from connector.declare.connector_section import Connector

SUCCESS: Final = "SUCCESS"
VALCHANGE: Final = "VALCHANGE"
FAIL: Final = "FAIL"
OBJECT_STATUSES: Final = (SUCCESS, VALCHANGE, "MULTIPLE_HITS")
"""A reply with one of these statuses may carry a business object."""
ERROR_STATUSES: Final = (
    FAIL,
    "FAIL_RETRIEVE_BY_CONTENT",
    "BO_DOES_NOT_EXIST",
    "UNABLE_TO_LOGIN",
    "VALDUPES",
    "APPRESPONSETIMEOUT",
)
"""A reply with one of these statuses may carry an error text."""

LATE: Final = 60_000
"""Milliseconds that a reply outlives its request. A late reply stays visible for this time."""

MAX_TEXT: Final = 8192
"""Bytes of an exception's text in a reply, at most."""

_log = logging.getLogger("connector.events")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with a status, for a business process whose subscription has ``reply: true``.

    ::

        return connector.Reply("BO_DOES_NOT_EXIST", f"there is no customer {customer['CustomerId']}")

    Args:
        status: SUCCESS, VALCHANGE, MULTIPLE_HITS, FAIL, FAIL_RETRIEVE_BY_CONTENT, BO_DOES_NOT_EXIST,
            UNABLE_TO_LOGIN, VALDUPES or APPRESPONSETIMEOUT.
        value: with the first three statuses a business object, or a mapping with attributes of the request's
            type. With the others an error text. None = an empty body.
        verb: of the object in the reply. None = that of the object. A mapping has that of the request.
        properties: user properties of the message. The adapter sets its own properties after these.
        correlation_id: JMSCorrelationID of the message. None = as ``reply_matching`` says. A requester that
            awaits the id of its request does not find a reply with another one.

    Raises:
        ValueError: there is no such status, or a property or the correlation id is not valid.
        TypeError: the value does not fit the status, or there is a verb without an object.
    """

    status: str = VALCHANGE
    value: BusinessObject | Mapping[str, Any] | str | None = field(default=None, repr=False)
    _: KW_ONLY
    verb: str | None = field(default=None, repr=False)
    properties: Mapping[str, PropertyValue] = field(default_factory=dict, repr=False)
    correlation_id: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.status in OBJECT_STATUSES:
            fits, expected = isinstance(self.value, BusinessObject | Mapping), "an object or a mapping"
        elif self.status in ERROR_STATUSES:
            fits, expected = isinstance(self.value, str), "a text"
        else:
            there_are = ", ".join((*OBJECT_STATUSES, *ERROR_STATUSES))
            raise ValueError(f"{self.status!r} is no status of a reply; there are {there_are}")
        if not fits and self.value is not None:
            found = type(self.value).__name__
            raise TypeError(f"a reply with the status {self.status} carries {expected}, not a {found}")
        if self.verb is not None and not isinstance(self.value, BusinessObject | Mapping):
            raise TypeError(f"the verb {self.verb!r} needs a reply with an object")
        self.set_headers(Message())

    def set_headers(self, message: Message) -> None:
        """Sets the user properties and the correlation id of a message.

        Raises:
            ValueError: one of them is not valid.
        """
        for name, value in self.properties.items():
            message.set_property(name, value)
        if self.correlation_id is not None:
            message.correlation_id = self.correlation_id
        message.check()


@dataclass(frozen=True, slots=True)
class ReplyHeaders:
    """The part of a reply that the request decides.

    Args:
        destination: where the answer is awaited.
        message: the headers that repeat the request's, without status and body.
    """

    destination: Destination
    message: Message


class Unanswered(NamedTuple):
    """Why a request gets no reply. Its event is processed all the same.

    Args:
        reason: the text, for the log and the history.
    """

    reason: str

    @classmethod
    def log(cls, request_id: str, reason: str) -> Self:
        """Logs the reason, and returns it."""
        _log.warning("a request gets no reply", extra={"message_id": request_id, "reason": reason})
        return cls(f"the request gets no reply: {reason}")


class Replies:
    """Makes the replies of one adapter.

    Args:
        definitions: for the mappings that business processes return.
        connector: the section. When the reply repeats the identifier of the request in its
            MessageFormatProperty, the reply names no format. Otherwise the reply would not be found.
        own_names: whether names of destinations are those of a server.
    """

    def __init__(self, definitions: Definitions, connector: Connector, *, own_names: bool = False) -> None:
        self._parse = known_destination if own_names else parse_destination
        self._definitions = definitions
        self._connector = connector
        self._request_id, self._reply_id = connector.reply_matching.request, connector.reply_matching.reply

    def reply_headers(self, request: Message, traceparent: str = "") -> ReplyHeaders | Unanswered | None:
        """Returns the beginning of a reply to a message. None when the message has no JMSReplyTo.

        The reply carries ``traceparent``, or else that of the request.
        A JMSReplyTo that is not a destination is logged.
        """
        if not request.reply_to:
            return None
        try:
            destination = self._parse(request.reply_to)
        except DestinationError as error:
            return Unanswered.log(request.message_id or "", f"its JMSReplyTo: {error}")
        message = Message(
            delivery_mode=request.delivery_mode,
            priority=request.priority,
            expiration=request.expiration + LATE if request.expiration else 0,
        )
        if traceparent := traceparent or valid_traceparent(request.properties.get(TRACEPARENT)):
            message.set_property(TRACEPARENT, traceparent)
        if HOPS in request.properties:
            message.set_property(HOPS, hops_of(request) + 1, "int")
        self._identify(request, message)
        return ReplyHeaders(destination, message)

    def _identify(self, request: Message, reply: Message) -> None:
        """Copies the request's identifier into the reply. JMSMessageID replaces a missing identifier.

        A client of AMQP need not set a message id. Such a request is known by its correlation id.
        """
        value: bool | int | float | str | None = request.message_id or request.correlation_id or None
        kind = "string"
        if self._request_id == "JMSCorrelationID":
            value = request.correlation_id or value
        elif self._request_id in request.properties:
            value = request.properties[self._request_id]
            kind = request.property_types[self._request_id]
        if value is None:
            return
        if self._reply_id == "JMSCorrelationID":
            reply.correlation_id = str(value).lower() if isinstance(value, bool) else str(value)
        else:
            reply.set_property(self._reply_id, value, kind)

    def answer(
        self,
        reply_headers: ReplyHeaders,
        bo: BusinessObject,
        answered: object,
        to_body: Callable[[BusinessObject], bytes | str],
        format_of: Callable[[str, str], str | None],
    ) -> Message:
        """Returns the reply that a process has answered with.

        Args:
            answered: the return value of the process: None, an object, a mapping or a :class:`Reply`.
            format_of: returns the format of the reply, by object and verb.

        Raises:
            MalformedData: the answer cannot be sent.
        """
        if answered is None:
            answered = Reply(SUCCESS)
        elif isinstance(answered, BusinessObject | Mapping):
            answered = Reply(VALCHANGE, answered)
        elif not isinstance(answered, Reply):
            raise MalformedData(
                f"what the process returned is no reply: found {type(answered).__name__}, expected None, a "
                "business object, a mapping or connector.Reply"
            )
        value = answered.value
        if isinstance(value, Mapping):
            value = BusinessObject(self._definitions, bo.type, answered.verb or bo.verb, value)
            finish(value, use_defaults=self._connector.use_defaults)
        elif isinstance(value, BusinessObject) and answered.verb is not None:
            value = copy(value)  # subscriptions after the process see the object, too
            value.verb = answered.verb
            finish(value)
        if isinstance(value, BusinessObject):
            message_class, body = write_body(to_body, value)
            about = value
        else:
            message_class, body = "T", (value or "").encode("utf-8", "backslashreplace")
            about = bo
        message = self._fill(reply_headers, answered.status, message_class, body, answered.set_headers)
        self._set_format(message, format_of(about.type, about.verb or ""))
        return message

    def failure(self, reply_headers: ReplyHeaders, text: str, message_format: str | None = None) -> Message:
        """Returns the reply to a request that has failed. ``text`` is the reason."""
        body = text.encode("utf-8", "backslashreplace")
        if len(body) > MAX_TEXT:
            body = body[: MAX_TEXT - 3].decode("utf-8", "ignore").encode() + b"..."
        message = self._fill(reply_headers, FAIL, "T", body)
        self._set_format(message, message_format)
        return message

    def _set_format(self, message: Message, message_format: str | None) -> None:
        connector = self._connector
        taken = self._reply_id, connector.message_response_result_property
        if message_format is not None and connector.message_format_property not in taken:
            set_format(message, message_format, connector.message_format_property)

    def _fill(
        self,
        reply_headers: ReplyHeaders,
        status: str,
        message_class: str,
        body: bytes,
        set_headers: Callable[[Message], None] = lambda _: None,
    ) -> Message:
        begun = reply_headers.message
        message = replace(
            begun,
            body=body,
            message_class=message_class,
            properties={},
            property_types={},
        )
        set_headers(message)
        for name, value in begun.properties.items():
            message.set_property(name, value, begun.property_types[name])
        message.set_property(self._connector.message_response_result_property, status, "string")
        return message
