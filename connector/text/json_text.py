"""JSON with exact numbers: texts to values and back, where numbers keep all their digits."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import orjson

from connector.text.decimals import ExactFloat, plain

_MARK: Final = secrets.token_hex(16)
"""No text of a message has this, because it is made anew for each process."""
_MARKED: Final = re.compile(rf'"{_MARK}([0-9]+)"')
_LONG: Final = 300
"""Digits that every float can have, before the point."""
_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]|\\.)*+"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?', re.DOTALL
)


def to_json(value: Any) -> bytes:
    """Returns JSON in UTF-8, without white space. A Decimal is a number with all its digits.

    Raises:
        TypeError: JSON has no such value. A :class:`orjson.JSONEncodeError` is one.
    """
    return orjson.dumps(value, default=_fragment)


def to_json_text(
    value: Any,
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """Works like :func:`json.dumps`, with all characters as they are and all digits of a Decimal.

    Raises:
        TypeError: JSON has no such value.
    """
    numbers: list[str] = []

    def mark(one: Any) -> Any:
        if isinstance(one, Decimal):
            numbers.append(plain(one))
            return f"{_MARK}{len(numbers) - 1}"
        if default is not None:
            return default(one)
        raise TypeError(f"JSON has no {type(one).__name__}")

    text = json.dumps(value, ensure_ascii=False, indent=indent, sort_keys=sort_keys, default=mark)
    return _MARKED.sub(lambda found: numbers[int(found[1])], text) if numbers else text


def from_json(body: bytes | str) -> Any:
    """Returns the value of a JSON text. A number with a point or an exponent is an :class:`ExactFloat`.

    Raises:
        orjson.JSONDecodeError: the text is no JSON. The error has the line and the column.
        RecursionError: the nesting is too deep for the parser.
    """
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if "infinity" not in error.msg:
            raise
        # A number is beyond 64 bits, which is no mistake of JSON. All else has to be right.
        data = body.encode() if isinstance(body, str) else body
        orjson.loads(_TOKEN.sub(lambda token: token[0] if token[0][:1] == b'"' else b"0", data))
    return json.loads(body, parse_float=ExactFloat, parse_int=_integer)


def _integer(text: str) -> int | ExactFloat:
    return int(text) if len(text) < _LONG else ExactFloat(text)


def _fragment(value: Any) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(plain(value))
    raise TypeError(f"JSON has no {type(value).__name__}")
