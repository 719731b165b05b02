"""Bodies as Python has them, and how they are written (JMS 2.0, 3.11).

=======  ==============  =====================================================================
class    Python          bytes of the body
=======  ==============  =====================================================================
``M``    None            none
``T``    str             UTF-8
``B``    bytes           themselves
``P``    dict            a JSON object: text keys; values as below
``S``    list            a JSON array of values as below
``O``    --              never read: reading one would run code of whoever has sent it
=======  ==============  =====================================================================

Values are None, bool, int, float (finite), str, lists and dicts of them, and bytes, which are written
``{"$bytes": "<base64>"}``.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from connector.errors import MalformedData
from connector.messaging.message import MESSAGE_CLASSES, NON_PERSISTENT, PERSISTENT, Message

Body = Message | str | bytes | Mapping[str, Any] | list[Any] | None
"""What can be sent: a message as it is, or a body whose Python type chooses the message class."""

_BYTES: Final = "$bytes"


def to_message(body: Body, *, persistent: bool = True) -> Message:
    """A message of its own with ``body``; of a message a copy, as if it had never been delivered.

    Args:
        persistent: the delivery mode, where ``body`` is no message.

    Raises:
        TypeError: the body is nothing that a message carries.
        ValueError: a value in it is not.
    """
    if isinstance(body, Message):
        return Message(
            body=body.body,
            message_class=body.message_class,
            correlation_id=body.correlation_id,
            reply_to=body.reply_to,
            type=body.type,
            delivery_mode=body.delivery_mode,
            priority=body.priority,
            expiration=body.expiration,
            properties=dict(body.properties),
            property_types=dict(body.property_types),
        )
    message = Message(delivery_mode=PERSISTENT if persistent else NON_PERSISTENT)
    if body is None:
        return replace(message, message_class="M")
    if isinstance(body, str):
        return replace(message, message_class="T", body=body.encode("utf-8"))
    if isinstance(body, bytes | bytearray | memoryview):
        return replace(message, message_class="B", body=bytes(body))
    if isinstance(body, Mapping):
        return replace(message, message_class="P", body=_write(dict(body)))
    if isinstance(body, list | tuple):
        return replace(message, message_class="S", body=_write(list(body)))
    raise TypeError(
        f"a message cannot carry a {type(body).__name__}: send str, bytes, a dict, a list, None or a Message"
    )


def value_of(message: Message) -> Any:
    """The body of a message as Python has it.

    Raises:
        MalformedData: it is not what the message class says, or an object message.
    """
    match message.message_class:
        case "M":
            return None
        case "B":
            return message.body
        case "T":
            try:
                return message.body.decode("utf-8")
            except UnicodeDecodeError as error:
                raise MalformedData(f"the text message is not UTF-8: {error}") from None
        case "P" | "S":
            return _read(message)
    name = MESSAGE_CLASSES.get(message.message_class, message.message_class)
    raise MalformedData(f"the body of an {name} is not read; take its bytes from 'body'")


def _write(value: dict[Any, Any] | list[Any]) -> bytes:
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the keys of a map message are text, not {key!r}")
        if set(value) == {_BYTES}:
            raise ValueError(f"a map whose only key is {_BYTES!r} would be read as bytes")
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a map or stream message cannot carry a {type(value).__name__}: {value!r}")


def _read(message: Message) -> Any:
    name, kind = ("map", dict) if message.message_class == "P" else ("stream", list)
    try:
        value = json.loads(message.body, object_hook=_object)
    except (ValueError, RecursionError) as error:
        raise MalformedData(
            f"the body of the {name} message is not the JSON that it should be: {error}"
        ) from None
    if not isinstance(value, kind):
        raise MalformedData(f"the body of the {name} message is a JSON {type(value).__name__}")
    return value


def _object(found: dict[str, Any]) -> Any:
    if set(found) != {_BYTES}:
        return found
    try:
        return base64.b64decode(found[_BYTES], validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"{_BYTES} is not base64: {error}") from None
