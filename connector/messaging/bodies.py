"""Message bodies as Python values, and their encoding as bytes (JMS 2.0, 3.11).

=======  ==============  =====================================================================
class    Python          bytes of the body
=======  ==============  =====================================================================
``M``    None            none
``T``    str             UTF-8
``B``    bytes           themselves
``P``    dict            a JSON object: text keys; values as below
``S``    list            a JSON array of values as below
``O``    --              never read: reading would run code of the sender
=======  ==============  =====================================================================

Values are None, bool, int, float (finite), str, bytes, and lists and dicts of values. Bytes are written as
``{"$bytes": "<base64>"}``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, Final

from connector.errors import MalformedData

Value = str | bytes | Mapping[str, Any] | list[Any] | None
"""A body as a Python value."""

_BYTES: Final = "$bytes"


def encode_body(value: Value) -> tuple[str, bytes]:
    """Returns the letter of the message class, and the bytes of the body.

    Raises:
        TypeError: a message cannot carry a value of this type.
        ValueError: the value, or a value within it, cannot be written. An example is NaN in a map.
    """
    if value is None:
        return "M", b""
    if isinstance(value, str):
        return "T", value.encode("utf-8")
    if isinstance(value, bytes | bytearray | memoryview):
        return "B", bytes(value)
    if isinstance(value, Mapping):
        return "P", _write(value)
    if isinstance(value, list | tuple):
        return "S", _write(value)
    raise TypeError(
        f"a message cannot carry a {type(value).__name__}: send str, bytes, a dict, a list, None or a Message"
    )


def decode_body(message_class: str, body: bytes) -> Any:
    """Returns the body as a Python value.

    Raises:
        MalformedData: the body does not fit the message class, or the message is an object message.
    """
    match message_class:
        case "M":
            return None
        case "B":
            return body
        case "T":
            try:
                return body.decode("utf-8")
            except UnicodeDecodeError as error:
                raise MalformedData(f"the text message is not UTF-8: {error}") from None
        case "P":
            return _read("map", dict, body)
        case "S":
            return _read("stream", list, body)
    raise MalformedData(f"the body of a message of class {message_class!r} is not read: take its bytes")


def _write(value: Any) -> bytes:
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
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"a map or stream message cannot carry {value}, which JSON does not have")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a map or stream message cannot carry a {type(value).__name__}: {value!r}")


def _read(name: str, kind: type, body: bytes) -> Any:
    try:
        value = json.loads(body, object_hook=_object)
    except (ValueError, RecursionError) as error:
        raise MalformedData(f"the body of the {name} message is not valid JSON: {error}") from None
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
