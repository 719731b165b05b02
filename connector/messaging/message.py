"""A message: headers, typed properties and a body (JMS 2.0, chapter 3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connector.messaging.bodies import decode_body
from connector.messaging.numbers import MAX_LONG, SPACE, read_number, read_whole
from connector.messaging.typed_values import (
    INTEGER_BITS,
    TYPES,
    check_whole,
    plain,
    to_float,
    type_of,
    with_types,
)
from connector.messaging.typed_values import natural_type as natural_type
from connector.text.names import shown

PropertyValue = bool | int | float | str

PROPERTY_TYPES: Final = ("boolean", "byte", "short", "int", "long", "float", "double", "string")
"""The types of properties, by their JMS names."""

STANDARD_TYPES: Final = {
    "JMSXUserID": "string",
    "JMSXAppID": "string",
    "JMSXDeliveryCount": "int",
    "JMSXGroupID": "string",
    "JMSXGroupSeq": "int",
    "JMSXProducerTXID": "string",
    "JMSXConsumerTXID": "string",
    "JMSXRcvTimestamp": "long",
    "JMSXState": "int",
}
"""The properties whose types JMS defines (JMS 2.0, 3.5.9, table 3-3)."""

OF_SENDERS: Final = ("JMSXGroupID", "JMSXGroupSeq")
"""The JMSX properties that senders set. All others are set by a provider (JMS 2.0, 3.5.9)."""

CONTENT_ENCODING: Final = "content_encoding"
"""The property that names how a body is packed."""
CONTENT_TYPE: Final = "connector_content_type"
"""The property with the MIME type of a body that came over HTTP. It chooses the data handler."""
DEFAULT_PRIORITY: Final = 4
AGAIN: Final = "connector_again"
"""The property of a published message that an operator has ordered to be processed once more. Its value is
another one for each order, and a part of the duplicate key."""
FILE_NAME: Final = "connector_file_name"
"""The property with the name of the file that a message came in."""
HIGHEST_PRIORITY: Final = 9
PERSISTENT: Final = 2
NON_PERSISTENT: Final = 1

MESSAGE_CLASSES: Final = {
    "M": "Message",
    "B": "BytesMessage",
    "S": "StreamMessage",
    "P": "MapMessage",
    "O": "ObjectMessage",
    "T": "TextMessage",
}
"""The letters of the message classes, with their JMS names (DropboxMQ, "Message Filenames", field 3)."""


def is_of_provider(name: str) -> bool:
    """Returns whether only a provider may set a property. A local provider takes none such from a sender."""
    return name.startswith("JMSX") and name not in OF_SENDERS


def check_property(kind: str, value: object) -> PropertyValue:
    """Returns ``value`` as a property of JMS type ``kind``.

    Raises:
        ValueError: there is no such type, or the value does not fit the type.
    """
    if kind == "boolean":
        if isinstance(value, bool):
            return value
    elif kind in INTEGER_BITS:
        if isinstance(value, int) and not isinstance(value, bool):
            return check_whole(kind, value)
    elif kind in ("float", "double"):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return to_float(float(value)) if kind == "float" else float(value)
    elif kind == "string":
        if isinstance(value, str):
            return value
    else:
        raise ValueError(f"{kind!r} is no property type; there are {', '.join(PROPERTY_TYPES)}")
    raise ValueError(f"{value!r} is no {kind}")


def parse_property(kind: str, text: str) -> PropertyValue:
    """Reads a property value of JMS type ``kind`` from text.

    Raises:
        ValueError: there is no such type, or the text is no value of the type.
    """
    if kind == "boolean":
        lowered = text.strip(SPACE).lower()
        if lowered in ("true", "false"):
            return lowered == "true"
        raise ValueError(f"{text!r} is no boolean (true or false)")
    if kind in INTEGER_BITS:
        try:
            return check_property(kind, read_whole(text))
        except ValueError as error:
            raise ValueError(f"{shown(text)} is no {kind}: {error}") from None
    if kind in ("float", "double"):
        try:
            return check_property(kind, read_number(text, finite=False))
        except ValueError as error:
            raise ValueError(f"{shown(text)} is no {kind}: {error}") from None
    return check_property(kind, text)


def check_text(text: object) -> str:
    """Returns a text that every provider can keep in a header or property.

    Raises:
        ValueError: the value is no text, is not valid Unicode, or has the character U+0000.
    """
    if not isinstance(text, str):
        raise ValueError(f"found a {type(text).__name__}, expected a text")
    if "\0" in text:
        raise ValueError("found a text with the character U+0000, which no database keeps")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("found a text that is not valid Unicode") from None
    return text


def check_priority(priority: int) -> int:
    """Returns a JMSPriority that a program sets (JMS 2.0, 3.4.10).

    Raises:
        ValueError: the value is not a whole number from 0 to 9.
    """
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= HIGHEST_PRIORITY:
        raise ValueError(f"{priority} is no priority: those are 0 to {HIGHEST_PRIORITY}")
    return priority


def expiration_after(milliseconds: int) -> int:
    """Returns the JMSExpiration of a message that is sent now. 0 = never.

    Args:
        milliseconds: the time to live. 0 = the message never expires.

    Raises:
        ValueError: the value is no whole number, is negative, or is so large that JMSExpiration does not fit
            a long.
    """
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool) or milliseconds < 0:
        raise ValueError(f"the time to live is {milliseconds} ms, expected 0 (never expires) or more")
    if not milliseconds:
        return 0
    now = time.time_ns() // 1_000_000
    if milliseconds > MAX_LONG - now:
        most = f"{MAX_LONG - now}, because JMSExpiration is a long"
        raise ValueError(f"the time to live is {milliseconds} ms, expected at most {most}")
    return now + milliseconds


def delivery_time_after(milliseconds: int) -> int:
    """Returns the JMSDeliveryTime of a message that is sent now (JMS 2.0, 7.9). 0 = no delay.

    Args:
        milliseconds: the delivery delay.

    Raises:
        ValueError: the value is no whole number, is negative, or is so large that JMSDeliveryTime does not
            fit a long.
    """
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool) or milliseconds < 0:
        raise ValueError(f"the delivery delay is {milliseconds} ms, expected 0 (none) or more")
    now = time.time_ns() // 1_000_000
    if milliseconds > MAX_LONG - now:
        most = f"{MAX_LONG - now}, because JMSDeliveryTime is a long"
        raise ValueError(f"the delivery delay is {milliseconds} ms, expected at most {most}")
    return now + milliseconds if milliseconds else 0


def _type_of_property(value: PropertyValue) -> str:
    kind = type_of(value)
    return "string" if kind == "char" else kind


@dataclass(slots=True)
class Message:
    """One message, with all JMS headers.

    Args:
        body: the bytes of the body. Text is UTF-8.
        message_class: a letter of :data:`MESSAGE_CLASSES`.
        message_id: JMSMessageID, ``ID:...``. For a file with a bare name that no client has claimed yet,
            that name. None until sent.
        timestamp: JMSTimestamp, milliseconds since 1970. 0 = unknown.
        correlation_id, reply_to, type: JMSCorrelationID, JMSReplyTo (``queue://x``), JMSType.
        delivery_mode: :data:`PERSISTENT` or :data:`NON_PERSISTENT`.
        priority: JMSPriority. The directory protocol allows any 32 bit number.
        expiration: JMSExpiration, milliseconds since 1970. 0 = never.
        delivery_count: JMSXDeliveryCount, 1 at the first delivery.
        destination: JMSDestination as text, the destination that the message was taken from.
        delivery_time: JMSDeliveryTime, milliseconds since 1970. No client gets the message earlier. 0 = at
            once.
        properties: name to value.
        property_types: name to a type of :data:`PROPERTY_TYPES`, with the same names as ``properties``.
    """

    body: bytes = b""
    message_class: str = "T"
    message_id: str | None = None
    timestamp: int = 0
    correlation_id: str | None = None
    reply_to: str | None = None
    type: str | None = None
    delivery_mode: int = PERSISTENT
    priority: int = DEFAULT_PRIORITY
    expiration: int = 0
    delivery_count: int = 1
    destination: str | None = None
    delivery_time: int = 0
    properties: dict[str, PropertyValue] = field(default_factory=dict)
    property_types: dict[str, str] = field(default_factory=dict)

    @property
    def redelivered(self) -> bool:
        """The JMSRedelivered."""
        return self.delivery_count > 1

    @property
    def value(self) -> Any:
        """The body as str, bytes, dict, list or None, by the message class.

        Values of a map or stream name their JMS types where these are not natural
        (:mod:`connector.messaging.typed_values`).

        Raises:
            MalformedData: the body does not fit the message class, or the message is an object message.
        """
        found = decode_body(self.message_class, self.body)
        return with_types(found, self.properties[TYPES]) if TYPES in self.properties else found

    def copy(self, body: bytes = b"") -> Message:
        """Returns a message with copies of the headers and properties, and with another body."""
        return Message(
            body,
            self.message_class,
            self.message_id,
            self.timestamp,
            self.correlation_id,
            self.reply_to,
            self.type,
            self.delivery_mode,
            self.priority,
            self.expiration,
            self.delivery_count,
            self.destination,
            self.delivery_time,
            dict(self.properties),
            dict(self.property_types),
        )

    @property
    def group_id(self) -> str | None:
        """The JMSXGroupID as text, although a foreign sender may have given it another type."""
        value = self.properties.get("JMSXGroupID")
        return None if value is None else str(value)

    def has_expired(self) -> bool:
        """Whether the message is past its expiration, by the clock of this machine."""
        return 0 < self.expiration <= time.time_ns() // 1_000_000

    def set_property(self, name: str, value: PropertyValue, kind: str | None = None) -> None:
        """Sets a property, of JMS type ``kind``, the type that JMS defines, or the type natural to the value.

        Raises:
            ValueError: the name is empty, or the value does not fit the type.
        """
        if not name:
            raise ValueError("a property needs a name")
        kind = kind or STANDARD_TYPES.get(name) or _type_of_property(value)
        self.properties[name] = plain(check_property(kind, value))
        self.property_types[name] = kind

    def remove_property(self, name: str) -> PropertyValue | None:
        """Removes a property, and returns its value. None if there is no such property."""
        self.property_types.pop(name, None)
        return self.properties.pop(name, None)

    def check(self) -> None:
        """Checks that a provider can send the message, and that every provider can read it afterwards.

        Raises:
            ValueError: a header is not valid, or a property does not fit its type.
        """
        if self.message_class not in MESSAGE_CLASSES:
            raise ValueError(f"{self.message_class!r} is no message class")
        if not isinstance(self.priority, int) or not -(1 << 31) <= self.priority < 1 << 31:
            raise ValueError(f"the priority {self.priority} does not fit 32 bits")
        if self.delivery_mode not in (PERSISTENT, NON_PERSISTENT):
            raise ValueError(f"{self.delivery_mode!r} is no delivery mode, expected 1 or 2")
        if not isinstance(self.expiration, int) or not 0 <= self.expiration <= MAX_LONG:
            raise ValueError(f"the expiration {self.expiration} is no time in milliseconds that fits a long")
        if not isinstance(self.delivery_time, int) or not 0 <= self.delivery_time <= MAX_LONG:
            raise ValueError(
                f"the delivery time {self.delivery_time} is no time in milliseconds that fits a long"
            )
        for header, text in (("JMSType", self.type), ("JMSCorrelationID", self.correlation_id)):
            if text:
                _check_text(header, text)
        if self.reply_to:
            _check_text("JMSReplyTo", self.reply_to)
        for name, value in self.properties.items():
            kind = self.property_types.get(name)
            if kind is None:
                raise ValueError(f"the property {name!r} has no type: set it with set_property")
            check_property(kind, value)
            _check_text("the name of a property", name)
            if kind == "string":
                _check_text(f"the property {name!r}", value)

    def headers(self) -> Mapping[str, object]:
        """Returns the headers by their JMS names, in the order of the specification."""
        return {
            "JMSMessageID": self.message_id,
            "JMSDestination": self.destination,
            "JMSTimestamp": self.timestamp,
            "JMSCorrelationID": self.correlation_id,
            "JMSReplyTo": self.reply_to,
            "JMSType": self.type,
            "JMSDeliveryMode": self.delivery_mode,
            "JMSPriority": self.priority,
            "JMSExpiration": self.expiration,
            "JMSRedelivered": self.redelivered,
            **({"JMSDeliveryTime": self.delivery_time} if self.delivery_time else {}),
        }


def _check_text(what: str, text: object) -> None:
    try:
        check_text(text)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None


def order_key(priority: int, timestamp: int, identity: str) -> tuple[int, int, str]:
    """Returns a key that sorts messages by priority, then by age, then by name (JBoss Messaging Core, 10)."""
    return (-priority, timestamp, identity)
