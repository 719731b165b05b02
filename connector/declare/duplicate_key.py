"""The value of ``duplicate_key``: what makes two messages of one input one event."""

from __future__ import annotations

from typing import Final

from connector.declare.value_types import ValueType, as_found, leaf, refuse
from connector.messaging.duplicate_key import BODY, NAME
from connector.text.names import nearest

_WORDS: Final = (NAME, BODY)
_EXPECTED: Final = 'name, body, or attributes in braces: "{OrderId}"'


def _read(value: object) -> str:
    word = leaf(value, _EXPECTED)
    if word in _WORDS or "{" in word or "}" in word:
        return str(word)
    raise refuse(as_found(word), _EXPECTED, nearest(word, _WORDS))


_SCHEMA: Final = {"anyOf": [{"enum": [*_WORDS]}, {"type": "string", "pattern": "[{}]"}]}
DUPLICATE_KEY: Final = ValueType(_read, str, _SCHEMA, "name | body | a text with attributes in braces")
