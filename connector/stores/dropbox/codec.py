"""File names of the directory protocol: a message's headers, in eight fields (DropboxMQ).

``priority.id.class.expiration.correlation.replyto.type.properties``. Only the first three are required.
DropboxMQ leaves these rules open. A name is *structured* when its first field is a 32 bit number, its second
is not empty and its third is a class letter. Any other name is *bare*. Until its file is claimed, the name is
itself the message id. The claim gives the file a structured name with an id (:func:`structure_file`). A dot
inside a field is written ``%2E``. Trailing dots are read, but not written. The properties are URL-encoded
pairs, ``nameT=value``, T the type letter.

Names are text, with undecodable bytes as lone surrogates (``os.fsdecode``). So every file name survives a
round trip.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import quote, quote_plus, unquote_plus, unquote_to_bytes

from connector.errors import DestinationError, MalformedData
from connector.messaging.destination import parse_destination
from connector.messaging.message import (
    DEFAULT_PRIORITY,
    FILE_NAME,
    MESSAGE_CLASSES,
    NON_PERSISTENT,
    PERSISTENT,
    Message,
    PropertyValue,
    is_of_provider,
    parse_property,
)
from connector.messaging.numbers import MAX_LONG

OWN: Final = "JMS_dropboxmq_"
"""Prefix of the properties that the protocol reserves. Never shown to an application."""

BARE: Final = f"{OWN}bareB=true"
"""Marks a structured name that an earlier version made from a bare name. Its id field is that bare name."""

_FILE_ID: Final = re.compile(r"4\.[0-9]+-[0-9a-z]+-file[0-9]+\.B\.").match
"""The beginning of a name of :func:`structure_file`. No other id of ours ends so."""
_FILE_NAME: Final = re.compile(rf"[.&]{FILE_NAME}S=([^&]*)").search

HEADER_KEY: Final = f"{OWN}hdr"
DELIVERY_MODE: Final = f"{OWN}mode"
DELIVERY_TIME: Final = f"{OWN}due"
OWNER: Final = f"{OWN}owner"
DELIVERY_COUNT: Final = "JMSXDeliveryCount"

TYPE_LETTERS: Final = {
    "boolean": "B",
    "byte": "Y",
    "short": "H",
    "int": "I",
    "long": "L",
    "float": "F",
    "double": "D",
    "string": "S",
}
LETTER_TYPES: Final = {letter: name for name, letter in TYPE_LETTERS.items()}

_DELIVERY_MODES: Final = (str(NON_PERSISTENT), str(PERSISTENT))

_NO_FIELDS: Final = ("",) * 5

TAG: Final = "~@"
"""Stands between the name of a claimed file and its owner."""

NAME_MAX: Final = 255
"""Longest file name in bytes."""


class Fields(NamedTuple):
    """The raw fields of a structured name, still encoded. Missing fields are empty."""

    priority: str
    id: str
    message_class: str
    expiration: str = ""
    correlation_id: str = ""
    reply_to: str = ""
    type: str = ""
    properties: str = ""

    def name(self) -> str:
        """Returns the file name. Empty fields at its end are left out."""
        return ".".join(self).rstrip(".")


def is_priority(text: str) -> bool:
    if not text.isascii() or len(text) > 11:
        return False
    digits = text[1:] if text[:1] == "-" else text
    return digits.isdigit() and -(1 << 31) <= int(text) < 1 << 31


def split(name: str) -> Fields | None:
    """Returns the fields of a structured name. None for a bare name."""
    parts = _split(name)
    return None if parts is None else Fields(*parts)


def _split(name: str) -> list[str] | None:
    """Returns the fields that a structured name has: three to eight. None for a bare name."""
    parts = name.split(".", 7)
    count = len(parts)
    if count < 3 or parts[2] not in MESSAGE_CLASSES or not parts[1]:
        return None
    if parts[0] != "4" and not is_priority(parts[0]):
        return None
    if count == 8 and not parts[7].strip("."):
        parts[7] = ""
    return parts


def encode_field(text: str) -> str:
    """Percent-encodes a field: no dots, and no characters that a file system dislikes."""
    if not text or (text.isascii() and text.replace("-", "").replace("_", "").isalnum()):
        return text
    encoded = quote(text.encode("utf-8", "surrogateescape"), safe="-_")
    return encoded.replace(".", "%2E").replace("~", "%7E")


def decode_field(text: str) -> str:
    """Undoes :func:`encode_field`. Bytes that are no UTF-8 become ``\\xff`` text."""
    if "%" not in text:
        if text.isascii():
            return text
        return os.fsencode(text).decode("utf-8", "backslashreplace")
    return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "backslashreplace")


def encode_property(name: str, kind: str, value: PropertyValue) -> str:
    """Returns a ``nameT=value`` pair. Raises UnicodeEncodeError for text that is no Unicode."""
    if kind == "boolean":
        text = "true" if value else "false"
    elif kind == "float":
        text = _float_text(float(value), single=True)
    elif kind == "double":
        text = _float_text(float(value), single=False)
    else:
        text = str(value)
    return f"{encode_pair_part(name)}{TYPE_LETTERS[kind]}={encode_pair_part(text)}"


def encode_pair_part(text: str) -> str:
    """Percent-encodes a name or a value of a property."""
    encoded = quote_plus(text, safe="-_")
    return encoded.replace(".", "%2E").replace("~", "%7E")


def _float_text(value: float, *, single: bool) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if single:  # the shortest text that gives the same 32 bits
        for digits in range(6, 10):
            text = f"{value:.{digits}g}"
            try:
                if struct.pack("<f", float(text)) == struct.pack("<f", value):
                    return text
            except OverflowError:
                continue
    return repr(value)


def is_bare(properties: str) -> bool:
    """Whether the properties field says that the id field is a bare name."""
    return BARE in properties and BARE in split_properties(properties)


def split_properties(field: str) -> list[str]:
    """Returns the still encoded pairs of a properties field."""
    return [pair for pair in field.split("&") if pair]


def decode_property(pair: str) -> tuple[str, str, PropertyValue]:
    """Returns name, JMS type and value of one pair.

    Raises:
        MalformedData: no ``=``, no type letter, or a value that its type does not have.
    """
    encoded_name, separator, encoded_value = pair.partition("=")
    name = _decode_pair_part(encoded_name)
    kind = LETTER_TYPES.get(name[-1:])
    if not separator or kind is None or len(name) < 2:
        raise MalformedData(
            f"the file name has a property {pair!r} that is not NAME + one of {'BYHILFDS'} + '=' + value"
        )
    try:
        return name[:-1], kind, parse_property(kind, _decode_pair_part(encoded_value))
    except ValueError as error:
        raise MalformedData(f"the file name has a property {name[:-1]!r}: {error}") from None


def _decode_pair_part(text: str) -> str:
    """Undoes the encoding of a name or value. The result is valid Unicode for any bytes of a foreign name."""
    if text.isascii() and "%" not in text:
        return text.replace("+", " ")
    raw = unquote_to_bytes(text.replace("+", " ").encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "backslashreplace")


def add_properties(name: str, encoded: str) -> str:
    """Appends encoded pairs to ``name``. A bare name becomes a structured name."""
    parts = name.split(".", 7)
    count = len(parts)
    if count >= 3 and parts[2] in MESSAGE_CLASSES and parts[1] and (parts[0] == "4" or is_priority(parts[0])):
        if count == 8:
            existing = parts[7].strip(".") and parts[7]
            return (
                f"{'.'.join(parts[:7])}.{existing}&{encoded}"
                if existing
                else f"{'.'.join(parts[:7])}.{encoded}"
            )
        return f"{name}{'.' * (8 - count)}{encoded}"
    return f"{structure_bare(name)}&{encoded}"


def structure_bare(name: str) -> str:
    """Returns the structured form of a bare name: default headers, the name as id, the mark :data:`BARE`."""
    return f"{DEFAULT_PRIORITY}.{encode_field(name)}.B.....{BARE}"


def structure_file(name: str, age: int, client_id: str, number: int) -> str:
    """Returns the structured name of a file with a bare name: a new id, and the bare name as a property.

    Args:
        age: time of the file's last change, in microseconds since 1970.
        client_id: of the client that claims the file.
        number: unique among the files that the client claims.
    """
    encoded = quote_plus(name.encode("utf-8", "surrogateescape"), safe="-_")
    encoded = encoded.replace(".", "%2E").replace("~", "%7E")
    identity = f"{max(age, 0):016d}-{client_id}-file{number}"
    return f"{DEFAULT_PRIORITY}.{identity}.B.....{FILE_NAME}S={encoded}"


def file_of(name: str) -> str | None:
    """Undoes :func:`structure_file`. None for any other name."""
    if FILE_NAME not in name or _FILE_ID(name) is None or (found := _FILE_NAME(name)) is None:
        return None
    bare = unquote_plus(found[1], errors="surrogateescape")
    is_valid = bare and not bare.startswith(".") and not set(bare) & set("/\0")
    return bare if is_valid and len(os.fsencode(bare)) <= NAME_MAX else None


def without_properties(name: str, prefixes: Iterable[str]) -> str:
    """Returns a structured name without the properties whose encoded names begin with any of ``prefixes``."""
    fields = split(name)
    if fields is None or not fields.properties:
        return name
    prefixes = tuple(prefixes)
    kept = [pair for pair in split_properties(fields.properties) if not pair.startswith(prefixes)]
    return fields._replace(properties="&".join(kept)).name()


def with_delivery_count(name: str, count: int) -> str:
    """Returns the name with JMSXDeliveryCount ``count``. The first delivery has no count."""
    if DELIVERY_COUNT in name:
        name = without_properties(name, (DELIVERY_COUNT,))
    return add_properties(name, f"{DELIVERY_COUNT}I={count}") if count > 1 else name


def message_id(name: str) -> str:
    """Returns the JMSMessageID of the message with this file name."""
    fields = split(name)
    if fields is None:
        return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")
    text = decode_field(fields.id)
    return text if is_bare(fields.properties) else f"ID:{text}"


def own_id(name: str) -> str | None:
    """Returns the id in a structured name, without ``ID:``.

    None if the name is, or was made from, a bare name.
    """
    parts = _split(name)
    if parts is None or (len(parts) == 8 and is_bare(parts[7])):
        return None
    return decode_field(parts[1])


def timestamp_micros(id_field: str) -> int | None:
    """Returns the time in an id of the form ``<16 digits>-...``, microseconds since 1970. None = no time."""
    if id_field[16:17] == "-":
        digits = id_field[:16]
        if digits.isdigit() and digits.isascii():
            return int(digits)
    return None


def encode(message: Message) -> str:
    """Returns the full name of a message, of any length.

    Raises:
        ValueError: the message has no id, or a header that cannot be written.
    """
    if not message.message_id:
        raise ValueError("a message needs an id before it has a name")
    if message.message_class not in MESSAGE_CLASSES:
        raise ValueError(f"{message.message_class!r} is no message class")
    pairs = []
    for name, value in message.properties.items():
        pairs.append(encode_property(name, message.property_types[name], value))
    if message.delivery_count > 1:
        pairs.append(f"{DELIVERY_COUNT}I={message.delivery_count}")
    if message.delivery_mode != PERSISTENT:
        pairs.append(f"{DELIVERY_MODE}I={message.delivery_mode}")
    if message.delivery_time:
        pairs.append(f"{DELIVERY_TIME}L={message.delivery_time}")
    identity = message.message_id
    if identity.startswith("ID:"):
        identity = identity[3:]
    elif BARE not in pairs:
        pairs.append(BARE)
    name = f"{message.priority}.{encode_field(identity)}.{message.message_class}"
    if not (pairs or message.expiration or message.correlation_id or message.reply_to or message.type):
        return name  # as most messages, which have three fields
    rest = (
        str(message.expiration) if message.expiration else "",
        encode_field(message.correlation_id or ""),
        encode_field(_short_destination(message.reply_to)),
        encode_field(message.type or ""),
        "&".join(pairs),
    )
    return f"{name}.{'.'.join(rest)}".rstrip(".")


def _short_destination(text: str | None) -> str:
    """Returns the bare name of a queue, as in the example of DropboxMQ. Other destinations are unchanged."""
    if not text:
        return ""
    return text.removeprefix("queue://")


def decode(name: str, *, readable_only: bool = False) -> tuple[Message, dict[str, str]]:
    """Returns the headers and properties in a name, and the protocol's reserved properties (without prefix).

    Args:
        readable_only: leave out parts that cannot be read. For callers that only look: a copy in the error
            destination shows its reason even if the cause is a header of the message.

    Raises:
        MalformedData: the name is structured, but a field cannot be read. The text names the field.
    """
    parts = _split(name)
    if parts is None:
        shown = message_id(name)
        return Message(
            message_class="B",
            message_id=shown,
            properties={FILE_NAME: shown},
            property_types={FILE_NAME: "string"},
        ), {}
    text = decode_field(parts[1])
    micros = timestamp_micros(text)
    message = Message(b"", parts[2], f"ID:{text}", micros // 1000 if micros else 0, priority=int(parts[0]))
    own: dict[str, str] = {}
    if len(parts) == 3:  # most names have three fields
        return message, own
    _, _, _, expiration, correlation_id, reply_to, message_type, properties = (*parts, *_NO_FIELDS)[:8]
    if properties:
        own = _decode_properties(message, properties, readable_only=readable_only)
        if is_bare(properties):
            message.message_id = text
    if expiration:
        try:
            message.expiration = decode_expiration(expiration)
        except MalformedData:
            if not readable_only:
                raise
    if correlation_id:
        message.correlation_id = decode_field(correlation_id)
    if message_type:
        message.type = decode_field(message_type)
    if reply_to:
        message.reply_to = _decode_destination(decode_field(reply_to))
    if own.get("due", "").isdigit():
        message.delivery_time = int(own["due"])
    if "mode" in own:
        if own["mode"] in _DELIVERY_MODES:
            message.delivery_mode = int(own["mode"])
        elif not readable_only:
            raise MalformedData(f"the file name has a delivery mode {own['mode']!r}, expected 1 or 2")
    return message, own


def _decode_properties(message: Message, field: str, *, readable_only: bool) -> dict[str, str]:
    """Adds the properties of a field to a message.

    Leaves out what only a provider may set. The count of deliveries is set by the receivers of the directory.

    Returns the protocol's reserved properties, without prefix.
    """
    own: dict[str, str] = {}
    for pair in split_properties(field):
        try:
            key, kind, value = decode_property(pair)
        except MalformedData:
            if readable_only:
                continue
            raise
        if key.startswith(OWN):
            own[key[len(OWN) :]] = str(value)
        elif key == DELIVERY_COUNT and kind in ("int", "long", "short", "byte"):
            message.delivery_count = max(1, int(value))
        elif not is_of_provider(key):  # whoever can write a file name is no provider
            message.properties[key] = value
            message.property_types[key] = kind
    return own


def decode_expiration(field: str) -> int:
    """Returns JMSExpiration in milliseconds. 0 = never.

    Raises:
        MalformedData: the field is no number.
    """
    if not field:
        return 0
    if field.isascii() and field.isdigit() and len(field) < 20 and int(field) <= MAX_LONG:
        return int(field)
    raise MalformedData(
        f"field 4 (expiration) of the file name is {field!r}, expected milliseconds since 1970 or nothing"
    )


def _decode_destination(text: str) -> str | None:
    """Returns JMSReplyTo as ``queue://x``. An invalid destination is kept, because every sender checks it."""
    if not text:
        return None
    try:
        return str(parse_destination(text if "://" in text else f"queue://{text}"))
    except DestinationError:
        return text
