"""Messages of JMS as messages of the connector, and back (JMS 2.0, chapter 3).

Java objects are used through JPype. ``jakarta.jms`` and ``javax.jms`` have the same interfaces, so the code
gets one of the two packages as an argument.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from connector.brokers.engine.broker import Received
from connector.brokers.jms.content_encoding import encoding_reader
from connector.brokers.jms.names import is_named, java_destination, name_of
from connector.brokers.jms.reasons import reason_of
from connector.errors import MalformedData, ProviderError
from connector.messaging.bodies import decode_body, encode_body
from connector.messaging.destination import Destination, known_destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.typed_values import TYPES, check_whole, plain, type_of, typed, types_of

_SETTERS: Final = {
    "boolean": "setBooleanProperty",
    "byte": "setByteProperty",
    "short": "setShortProperty",
    "int": "setIntProperty",
    "long": "setLongProperty",
    "float": "setFloatProperty",
    "double": "setDoubleProperty",
    "string": "setStringProperty",
}
_DELIVERY_COUNT: Final = "JMSXDeliveryCount"
_NATIVE_ID: Final = "NATIVE_MESSAGE_ID"
"""The JMSMessageID of a message that was sent by AMQP, for a client of Artemis's own protocol. The header has
another id at each delivery.
"""
REFUSED: Final = "connector_property_"
"""Prefix of a property that the client refuses to set under its own name."""
_NO_IDENTIFIER: Final = re.compile(r"[^A-Za-z0-9_]")
_ESCAPES: Final = re.compile(r"((?:\$[0-9A-F]{2})+)")


class MessageReader:
    """Reads Java messages.

    Args:
        jms: the Java package ``jakarta.jms`` or ``javax.jms``.
        tell: is called with each destination that a message names, and with its Java object.
    """

    def __init__(self, jpype: Any, jms: Any, tell: Callable[[Destination, Any], object]) -> None:
        self._jms = jms
        self._tell = tell
        self._exception = jpype.JException
        self._classes = (
            ("T", jms.TextMessage),
            ("B", jms.BytesMessage),
            ("P", jms.MapMessage),
            ("S", jms.StreamMessage),
            ("O", jms.ObjectMessage),
            ("M", jms.Message),
        )
        self._bytes = jpype.JArray(jpype.JByte)
        lang = jpype.JPackage("java").lang
        self._types = {
            lang.String: ("string", str),
            lang.Boolean: ("boolean", bool),
            lang.Byte: ("byte", int),
            lang.Short: ("short", int),
            lang.Integer: ("int", int),
            lang.Long: ("long", int),
            lang.Float: ("float", float),
            lang.Double: ("double", float),
        }
        self._character = lang.Character
        self._read_encoding = encoding_reader(jpype)

    def read(self, found: Any, limit: int) -> Received:
        """Returns a Java message with headers, properties and body, as far as they can be read.

        Never raises: any program may have sent the message.

        Args:
            limit: bytes. A larger body stays in Java.
        """
        try:
            message = Message(
                message_class="M",
                message_id=_text(found.getJMSMessageID()),
                timestamp=int(found.getJMSTimestamp()),
                correlation_id=_text(found.getJMSCorrelationID()),
                type=_text(found.getJMSType()),
                delivery_mode=int(found.getJMSDeliveryMode()),
                priority=int(found.getJMSPriority()),
                expiration=int(found.getJMSExpiration()),
            )
            self._read_reply_to(found, message)
            for name in self._names(found):
                self._read_property(found, name, message)
            problems: list[str] = []
        except Exception:
            message, problems = self._read_each(found)
        size = 0
        try:
            message.message_class, message.body, size = self._body(found, limit, message)
        except Exception as error:
            message.message_class = next(letter for letter, kind in self._classes if isinstance(found, kind))
            problems.append(f"the body cannot be read: {reason_of(error)}")
        if message.message_class == "B" and self._read_encoding is not None:
            with contextlib.suppress(Exception):  # a message of another client has no such header
                self._read_encoding(found, message)
        return Received(message, size, "; ".join(problems))

    def _read_each(self, found: Any) -> tuple[Message, list[str]]:
        """Reads headers and properties one by one. Returns also why some of them cannot be read."""
        message = Message(message_class="M")
        problems: list[str] = []
        for header, attribute, convert in _HEADERS:
            try:
                setattr(message, attribute, convert(getattr(found, f"get{header}")()))
            except Exception as error:
                problems.append(f"{header} cannot be read: {reason_of(error)}")
        try:
            self._read_reply_to(found, message)
        except Exception as error:
            problems.append(f"JMSReplyTo cannot be read: {reason_of(error)}")
        try:
            names = list(self._names(found))
        except Exception as error:
            names = []
            problems.append(f"the properties cannot be read: {reason_of(error)}")
        for name in names:
            try:
                self._read_property(found, name, message)
            except Exception as error:
                problems.append(f"the property {readable(name)!r} cannot be read: {reason_of(error)}")
        return message, problems

    def _read_reply_to(self, found: Any, message: Message) -> None:
        java = found.getJMSReplyTo()
        if java is None:
            return
        message.reply_to = name_of(java, self._jms)
        if is_named(message.reply_to):
            self._tell(known_destination(message.reply_to), java)

    @staticmethod
    def _names(found: Any) -> Iterator[Any]:
        names = found.getPropertyNames()
        while names.hasMoreElements():
            yield names.nextElement()

    def _read_property(self, found: Any, name: Any, message: Message) -> None:
        name = str(name)
        if name == _DELIVERY_COUNT:
            message.delivery_count = max(1, int(found.getIntProperty(name)))
            return
        value = found.getObjectProperty(name)
        if value is None:
            return
        if name == _NATIVE_ID:
            message.message_id = str(value)
            return
        known = self._types.get(type(value))
        if known is None:  # a vendor's own type
            known = "string", str
        name = _unescape(name)
        message.properties[name] = known[1](value)
        message.property_types[name] = known[0]

    def _body(self, found: Any, limit: int, message: Message) -> tuple[str, bytes, int]:
        """Returns the letter of the class, the bytes of the body, and the size of the body.

        The types of the values of a map or stream become a property of the message.
        """
        jms = self._jms
        if isinstance(found, jms.TextMessage):
            text = found.getText()
            if text is None:
                return "T", b"", 0
            if text.length() > limit:  # each character has one byte at least
                return "T", b"", int(text.length())
            body = str(text).encode()
            return "T", body, len(body)
        if isinstance(found, jms.BytesMessage):
            size = int(found.getBodyLength())
            if size > limit:
                return "B", b"", size
            buffer = self._bytes(size)
            found.reset()
            if size:
                found.readBytes(buffer)
            return "B", bytes(buffer), size
        if isinstance(found, jms.MapMessage):
            names, values = found.getMapNames(), {}
            while names.hasMoreElements():
                name = str(names.nextElement())
                values[name] = self._value(found.getObject(name))
            return self._encode(values, message)
        if isinstance(found, jms.StreamMessage):
            return self._encode(self._stream(found), message)
        if isinstance(found, jms.ObjectMessage):
            return "O", b"", 0
        return "M", b"", 0

    def _stream(self, found: Any) -> list[Any]:
        values: list[Any] = []
        found.reset()
        while True:
            try:
                values.append(self._value(found.readObject()))
            except self._jms.MessageEOFException:
                return values

    def _value(self, value: Any) -> Any:
        """Returns a value of a map or stream as a Python value that names its type."""
        if value is None:
            return None
        known = self._types.get(type(value))
        if known is not None:
            return typed(known[0], known[1](value))
        if isinstance(value, self._character):
            return typed("char", str(value))
        if isinstance(value, self._bytes):
            return bytes(value)
        return str(value)

    @staticmethod
    def _encode(value: Any, message: Message) -> tuple[str, bytes, int]:
        letter, body = encode_body(value)
        message.remove_property(TYPES)  # of a sender
        if types := types_of(value):
            message.set_property(TYPES, types)
        return letter, body, len(body)


class MessageWriter:
    """Makes Java messages of one session.

    Args:
        find: returns the Java object of a destination that the session need not make, or None.
    """

    def __init__(self, jpype: Any, session: Any, find: Callable[[Destination], Any]) -> None:
        self._jpype = jpype
        self._session = session
        self._find = find
        self._bytes = jpype.JArray(jpype.JByte)
        lang = jpype.JPackage("java").lang
        self._boxes = {
            "boolean": lang.Boolean,
            "byte": lang.Byte,
            "short": lang.Short,
            "int": lang.Integer,
            "long": lang.Long,
            "float": lang.Float,
            "double": lang.Double,
            "char": lang.Character,
        }

    def write(self, message: Message, received: Any = None) -> Any:
        """Returns a Java message with the body, the properties and the headers that a sender sets.

        Args:
            received: the Java message whose copy this is, sent again with its body. None = a new message.

        Raises:
            MalformedData: the body does not fit the class of the message.
            ProviderError: an object message, whose body nobody has read.
            ValueError: the client refuses a property also under the name of a copy.
        """
        if received is None:
            found = self._with_body(message)
        else:
            found = received
            found.clearProperties()
        for header, text in (("JMSCorrelationID", message.correlation_id), ("JMSType", message.type)):
            if text is not None:
                self._set_header(found, header, text)
        if message.reply_to:
            self._set_reply_to(found, message.reply_to)
        for name, value in message.properties.items():
            if name not in (_DELIVERY_COUNT, TYPES):
                self._set(found, name, message.property_types[name], value)
        return found

    def _set_reply_to(self, found: Any, text: str) -> None:
        """Sets JMSReplyTo. If its name has no text, a copy keeps the Java object that it has."""
        if is_named(text):
            found.setJMSReplyTo(self.destination(known_destination(text)))
        elif found.getJMSReplyTo() is None:
            found.setStringProperty(f"{REFUSED}JMSReplyTo", text)

    def _set_header(self, found: Any, header: str, value: str) -> None:
        """Sets a header, or else a property with the name of the header."""
        try:
            getattr(found, f"set{header}")(value)
        except self._jpype.JException:
            found.setStringProperty(REFUSED + header, value)

    def destination(self, destination: Destination) -> Any:
        """Returns the Java destination.

        Raises:
            UnknownDestination: JNDI has no such destination, or a temporary one has ended.
            ProviderError: JNDI is out of reach.
        """
        found = self._find(destination)
        if found is not None:
            return found
        return java_destination(self._session, destination)

    def _set(self, found: Any, name: str, kind: str, value: PropertyValue) -> None:
        setter = getattr(found, _SETTERS[kind])
        try:
            setter(name, value)
        except self._jpype.JException:
            setter(REFUSED + _NO_IDENTIFIER.sub(_escape, name), value)

    def _with_body(self, message: Message) -> Any:
        session, letter = self._session, message.message_class
        if letter == "T":
            return session.createTextMessage(decode_body(letter, message.body))
        if letter == "B":
            found = session.createBytesMessage()
            found.writeBytes(self._bytes(message.body))
            return found
        if letter == "P":
            found = session.createMapMessage()
            for name, value in message.value.items():
                found.setObject(name, self._object(value))
            return found
        if letter == "S":
            found = session.createStreamMessage()
            for value in message.value:
                found.writeObject(self._object(value))
            return found
        if letter == "M":
            return session.createMessage()
        raise ProviderError("an object message cannot be sent: its body is not read")

    def _object(self, value: Any) -> Any:
        """Returns a value of a map or stream as a Java object.

        Raises:
            MalformedData: JMS has no such value in a map or stream.
        """
        if value is None:
            return None
        if isinstance(value, bytes):
            return self._bytes(value)
        if not isinstance(value, bool | int | float | str):
            raise MalformedData(f"a map or stream message of JMS cannot carry a {type(value).__name__}")
        kind = type_of(value)
        if kind == "string":
            return value
        try:
            return self._boxes[kind](check_whole(kind, int(value)) if kind == "long" else plain(value))
        except ValueError as error:
            raise MalformedData(f"a map or stream message of JMS cannot carry a value: {error}") from None


def _escape(found: re.Match[str]) -> str:
    """Returns a character as ``$2D`` for each byte: an identifier of Java may contain a dollar sign."""
    return "".join(f"${byte:02X}" for byte in found.group().encode("utf-8", "surrogatepass"))


def _unescape(name: str) -> str:
    """Returns the name of a property that a client had refused, and any other name unchanged."""
    if not name.startswith(REFUSED):
        return name
    parts = _ESCAPES.split(name.removeprefix(REFUSED))
    found = b"".join(
        bytes.fromhex(part.replace("$", "")) if part.startswith("$") else part.encode() for part in parts
    )
    try:
        return found.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # another client has chosen this name
        return name


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


_HEADERS: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("JMSMessageID", "message_id", _text),
    ("JMSTimestamp", "timestamp", int),
    ("JMSCorrelationID", "correlation_id", _text),
    ("JMSType", "type", _text),
    ("JMSDeliveryMode", "delivery_mode", int),
    ("JMSPriority", "priority", int),
    ("JMSExpiration", "expiration", int),
)


def readable(text: Any) -> str:
    """Returns a text of Java, each lone surrogate replaced: no text of Python can have one in UTF-8."""
    try:
        return str(text)
    except UnicodeDecodeError:
        return str(text.replaceAll("\\p{Cs}", "\ufffd"))
