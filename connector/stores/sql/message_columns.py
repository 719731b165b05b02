"""Reads messages from rows. Other programs write rows too, so any column may hold anything.

A part that cannot be read is left out, and named as a reason. The caller decides whether the message fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from connector.errors import MalformedData
from connector.messaging.message import (
    DEFAULT_PRIORITY,
    MESSAGE_CLASSES,
    NON_PERSISTENT,
    PERSISTENT,
    Message,
    check_property,
    is_of_provider,
    natural_type,
)
from connector.stores.sql.json_columns import NoJson
from connector.text.names import cut

HEADERS: Final = {
    "message_class": ("MessageClass", "T"),
    "message_id": ("JMSMessageID", None),
    "timestamp": ("JMSTimestamp", 0),
    "correlation_id": ("JMSCorrelationID", None),
    "reply_to": ("JMSReplyTo", None),
    "type": ("JMSType", None),
    "delivery_mode": ("JMSDeliveryMode", PERSISTENT),
    "delivery_time": ("JMSDeliveryTime", 0),
}
"""Field of a message -> its name in the column ``headers``, and its default."""

_FIELDS: Final = {name: field for field, (name, _) in HEADERS.items()}
_SHOWN: Final = 40

_Note = Callable[[str], object]
"""Called with the reason why a part of a message cannot be read."""


def read_message(row: Any, body: bytes = b"", unreadable: _Note | None = None) -> Message:
    """Returns the message of a row of :func:`.statements.select_claims`, as far as it can be read.

    Args:
        row: of a reference and its message.
        unreadable: called with a reason for each part that cannot be read.
    """
    note = unreadable or _ignore
    found = Message(body)
    found.priority = _number(row.priority, 32, DEFAULT_PRIORITY, "priority", note)
    found.expiration = _number(row.expiration, 64, 0, "expiration", note)
    found.delivery_count = max(0, _number(row.delivery_count, 31, 0, "delivery_count", note)) + 1
    for name, value in _mapping(row.headers, "headers", note).items():
        if name not in _FIELDS:
            continue
        if _fits(name, value):
            setattr(found, _FIELDS[name], value)
        else:
            note(f"the header {name} is {_show(value)}")
    if row.due is not None:
        found.delivery_time = _number(row.due, 64, 0, "due", note)
    if not found.message_id:
        found.message_id = f"ID:{row.message}"
    _read_properties(row, found, note)
    return found


def _read_properties(row: Any, found: Message, note: _Note) -> None:
    given = _mapping(row.given_properties, "properties", note)
    types = _mapping(row.property_types, "property_types", note, may_be_missing=True)
    changed = _mapping(row.properties, "properties", note, may_be_missing=True)
    if changed:
        given, types = {**given, **changed}, {k: v for k, v in types.items() if k not in changed}
    for name, value in given.items():
        if (value is None and name in changed) or is_of_provider(name):  # the columns have what we set
            continue
        kind = types.get(name)
        try:
            if kind is None:
                if not isinstance(value, bool | int | float | str):
                    raise ValueError(f"{_show(value)} is no value of a property")
                kind = natural_type(value)
            elif kind in ("float", "double") and isinstance(value, str):
                value = float(value)
            found.properties[name] = check_property(kind, value)
            found.property_types[name] = kind
        except (ValueError, TypeError) as error:
            note(f"the property {_show(name)} cannot be read: {error}")


def read_body(row: Any) -> bytes:
    """Returns the bytes of a body. The text of another program counts as its UTF-8 bytes.

    Raises:
        MalformedData: the column has neither bytes nor text.
    """
    if isinstance(row.body, str):
        return row.body.encode("utf-8", "surrogateescape")
    if isinstance(row.body, bytes | bytearray | memoryview):
        return bytes(row.body)
    raise MalformedData(f"the column body is {_show(row.body)}, expected bytes")


def _mapping(value: Any, column: str, note: _Note, *, may_be_missing: bool = False) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if isinstance(value, NoJson):
        note(f"the column {column} is no JSON: {value.reason}")
    elif value is not None or not may_be_missing:
        note(f"the column {column} is {_show(value)}, expected a JSON object")
    return {}


def _number(value: Any, bits: int, default: int, column: str, note: _Note) -> int:
    """Returns a whole number of at most ``bits`` bits, else the default."""
    if isinstance(value, int) and -(1 << bits - 1) <= value < 1 << bits - 1:
        return value
    note(f"the column {column} is {_show(value)}, expected a whole number of {bits} bits")
    return default


def _fits(name: str, value: Any) -> bool:
    if name == "MessageClass":
        return isinstance(value, str) and value in MESSAGE_CLASSES
    if name == "JMSDeliveryMode":
        return value in (NON_PERSISTENT, PERSISTENT) and not isinstance(value, bool | float)
    if name in ("JMSTimestamp", "JMSDeliveryTime"):
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63
    return value is None or isinstance(value, str)


def _show(value: Any) -> str:
    return cut(repr(value), _SHOWN)


def _ignore(reason: str) -> None:
    """Does nothing."""
