"""What a business process sends with ``event.send``: messages that belong to its delivery.

A sent message is kept in memory until the process has returned. Then the task prepares the message, as for a
subscription with ``destination``. The settlement that records the delivery as confirmed sends the message. A
delivery that has failed, comes later or was not active sends nothing.

With a transaction, the row of the event holds the messages, too. A run that finds the row prepares them
again.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject, finish
from connector.errors import CapabilityError, MalformedData, SessionStateError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.history import EVENT_ID, HOPS, KEY
from connector.messaging.message import (
    NON_PERSISTENT,
    PERSISTENT,
    Message,
    PropertyValue,
    check_priority,
    check_text,
    delivery_time_after,
)
from connector.operate.trace_context import TRACEPARENT
from connector.sinks.sent_headers import SentHeaders

MOST_BYTES: Final = 1 << 20
"""Bytes of the bodies and properties that one delivery may send together."""

WriteObject = Callable[[BusinessObject, str | None, Mapping[str, str]], tuple[str, bytes]]
"""Returns the message class and the body of an object, for a MIME type or None and what its rule says."""


class SentMessage(NamedTuple):
    """A message that a process has sent.

    Args:
        destination: where it goes.
        object: the business object. None = a body was sent as it is.
    """

    destination: Destination
    message: Message
    object: BusinessObject | None = None

    @property
    def body(self) -> bytes:
        """The body, in the format of the message."""
        return self.message.body

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        """The properties, ``connector_key`` among them."""
        return self.message.properties


@dataclass(frozen=True, slots=True)
class Wanted:
    """The keyword arguments of :meth:`connector.sinks.contract.Event.send`. None = not given."""

    destination: str | Destination | None = None
    verb: str | None = None
    mime_type: str | None = None
    properties: Mapping[str, PropertyValue] | None = None
    priority: int | None = None
    correlation_id: str | None = None
    group: str | None = None
    delay: int | None = None


class Outbox:
    """What one delivery has sent. For any thread of the process, until the delivery has ended.

    Args:
        event_id, subscription: of the delivery. The keys of the messages begin with them.
        traceparent: the place of the event in its trace. Empty = none.
        hops: of what is sent.
    """

    def __init__(
        self, writer: OutboxWriter, event_id: str, subscription: str, traceparent: str, hops: int
    ) -> None:
        self._writer = writer
        self._event_id = event_id
        self._base = f"{event_id}/{subscription}"
        self._traceparent = traceparent
        self._hops = hops
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._bytes = 0
        self._has_ended = False
        self.messages: list[SentMessage] = []

    def send(
        self,
        object_or_type: BusinessObject | str | bytes,
        data: Mapping[str, Any] | None,
        wanted: Wanted,
    ) -> str:
        """Adds a message, and returns its key. See :meth:`connector.sinks.contract.Event.send`."""
        if os.getpid() != self._pid:
            raise SessionStateError("a forked process cannot send: the process that got the event sends")
        made = self._writer.write(object_or_type, data, wanted)
        with self._lock:
            if self._has_ended:
                raise SessionStateError(
                    f"the delivery of {self._base} has ended, so nothing more is sent with it: send before "
                    "the process returns, and wait for threads that send"
                )
            size = len(made.message.body) + sum(len(f"{k}{v}") for k, v in made.message.properties.items())
            if self._bytes + size > MOST_BYTES:
                raise MalformedData(
                    f"a delivery sends at most {MOST_BYTES} bytes together, and this is "
                    f"{self._bytes + size}: send a reference, or split the work"
                )
            self._bytes += size
            self.messages.append(made)
            key = f"{self._base}/{len(self.messages)}"
            made.message.set_property(KEY, key)
            made.message.set_property(HOPS, self._hops, "int")
            if self._event_id:
                made.message.set_property(EVENT_ID, self._event_id)
            if self._traceparent:
                made.message.set_property(TRACEPARENT, self._traceparent)
        return key

    def forget(self) -> None:
        """Forgets what was sent, because the sink is called again."""
        with self._lock:
            self.messages, self._bytes = [], 0

    def end(self) -> list[SentMessage]:
        """Lets nothing more be sent. Returns what was sent."""
        with self._lock:
            self._has_ended = True
            return self.messages


class OutboxWriter:
    """Makes messages of what processes send. For any thread.

    Args:
        definitions: the business objects.
        write: writes an object.
        properties: returns the keys and values of the static meta-object for an object and a verb.
        format_property: MessageFormatProperty.
        default_verb: of an object without a verb.
        persistent: whether messages are persistent by default.
        own_names: whether names of destinations are those of a server.
    """

    def __init__(
        self,
        definitions: Definitions,
        write: WriteObject,
        properties: Callable[[str, str], Mapping[str, str]],
        format_property: str,
        default_verb: str | None,
        *,
        persistent: bool,
        own_names: bool,
    ) -> None:
        self._definitions = definitions
        self._write = write
        self._own_names = own_names
        self._properties = properties
        self._format_property = format_property
        self._default_verb = default_verb
        self._mode = PERSISTENT if persistent else NON_PERSISTENT

    def write(
        self,
        object_or_type: BusinessObject | str | bytes,
        data: Mapping[str, Any] | None,
        wanted: Wanted,
    ) -> SentMessage:
        """Returns the message.

        Raises:
            UnknownBusinessObject, MalformedData: the data do not fit the business object.
            CapabilityError: nothing says where the message goes.
            ValueError: a destination, header or property is not valid.
        """
        bo = self._object(object_or_type, data, wanted.verb)
        said = self._properties(bo.type, bo.verb or "") if bo is not None else {}
        place = wanted.destination or said.get("OutputDestination") or ""
        if not place:
            raise CapabilityError(
                "event.send: nothing says where the message goes: give destination="
                + ("" if bo is None else f", or an OutputDestination in the rule {bo.type}_{bo.verb}")
            )
        destination = parse_destination(place, own_names=self._own_names) if isinstance(place, str) else place
        if bo is None:
            message = self._raw(object_or_type, wanted)
        else:
            kind, body = self._write(bo, wanted.mime_type, said)
            message = Message(body=body, message_class=kind, delivery_mode=self._mode)
            SentHeaders.read(said).set_on(message, self._format_property)
        self._set_wanted(message, wanted)
        return SentMessage(destination, message, bo)

    def _object(
        self, given: BusinessObject | str | bytes, data: Mapping[str, Any] | None, verb: str | None
    ) -> BusinessObject | None:
        """Returns the object to send. None = a body is sent as it is."""
        if isinstance(given, BusinessObject):
            if data is not None:
                raise TypeError("event.send takes a business object, or a type and its data")
            bo = given
            if verb is not None and verb != bo.verb:
                bo = BusinessObject(given.definitions, given.type, verb)
                bo.set_values({name: given.value(name) for name in given}, keeps_null=True)
        elif data is None:
            return None
        else:
            if not isinstance(given, str):
                raise TypeError(
                    "event.send: with data the first argument is a type, such as 'Invoice.Create'"
                )
            name, named_verb = given, verb
            if given not in self._definitions:
                definition, named_verb = self._definitions.find(given)
                name = definition.name
            bo = BusinessObject(self._definitions, name, verb or named_verb, data)
        finish(bo, default_verb=self._default_verb)
        return bo

    def _raw(self, given: object, wanted: Wanted) -> Message:
        if wanted.mime_type is not None or wanted.verb is not None:
            raise TypeError("event.send: mime_type and verb are for a business object, and this is a body")
        if isinstance(given, str):
            if given.partition(".")[0] in self._definitions:
                raise TypeError(f"event.send({given!r}) has no data: give the attributes, or {{}}")
            return Message(body=given.encode("utf-8"), message_class="T", delivery_mode=self._mode)
        if isinstance(given, bytes | bytearray | memoryview):
            return Message(body=bytes(given), message_class="B", delivery_mode=self._mode)
        raise TypeError(
            f"event.send takes a business object, a type with data, text or bytes, not {given!r:.40}"
        )

    def _set_wanted(self, message: Message, wanted: Wanted) -> None:
        for name, value in (wanted.properties or {}).items():
            message.set_property(name, value)
        if wanted.priority is not None:
            message.priority = check_priority(wanted.priority)
        if wanted.correlation_id is not None:
            message.correlation_id = check_text(wanted.correlation_id)
        if wanted.group is not None:
            message.set_property("JMSXGroupID", check_text(wanted.group))
        if wanted.delay is not None:
            message.delivery_time = delivery_time_after(wanted.delay)
        message.check()


def pack_sent(messages: list[SentMessage]) -> str:
    """Returns messages as a text, for the row of a transaction."""
    return orjson.dumps(
        [
            {
                "to": str(one.destination),
                "body": base64.b64encode(one.message.body).decode(),
                **{name: getattr(one.message, name) for name in _KEPT},
            }
            for one in messages
        ]
    ).decode()


def unpack_sent(text: str) -> list[SentMessage]:
    """Undoes :func:`pack_sent`, but for the objects.

    Raises:
        ValueError: the text is not of :func:`pack_sent`.
    """
    found = []
    for row in orjson.loads(text):
        headers = {name: row[name] for name in _KEPT}
        message = Message(body=base64.b64decode(row["body"], validate=True), **headers)
        found.append(SentMessage(parse_destination(row["to"]), message))
    return found


_KEPT: Final = (
    *("message_class", "correlation_id", "delivery_mode", "priority", "expiration", "delivery_time"),
    *("properties", "property_types"),
)
"""The headers that a sent message may have."""
