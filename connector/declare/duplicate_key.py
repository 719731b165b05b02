"""The value of ``duplicate_key``: what makes two messages of one input one event."""

from __future__ import annotations

from typing import Final

from connector.declare.value_types import ValueType, as_found, leaf, refuse
from connector.text.names import nearest

NAME: Final = "name"
"""Two files of one name are one event."""
BODY: Final = "body"
"""Two messages with one body are one event."""
_WORDS: Final = (NAME, BODY)
_EXPECTED: Final = 'name, body, or attributes in braces: "{OrderId}"'


def has_value_key(duplicate_key: str | None) -> bool:
    """Whether a ``duplicate_key`` names values of a message, so that a task has to find the keys."""
    return bool(duplicate_key) and duplicate_key != NAME


def is_template(duplicate_key: str | None) -> bool:
    """Whether a ``duplicate_key`` names attributes of an object."""
    return has_value_key(duplicate_key) and duplicate_key != BODY


def _read(value: object) -> str:
    word = leaf(value, _EXPECTED)
    if word in _WORDS or "{" in word or "}" in word:
        return str(word)
    raise refuse(as_found(word), _EXPECTED, nearest(word, _WORDS))


_SCHEMA: Final = {"anyOf": [{"enum": [*_WORDS]}, {"type": "string", "pattern": "[{}]"}]}
DUPLICATE_KEY: Final = ValueType(_read, str, _SCHEMA, "name | body | a text with attributes in braces")
