"""Writes a single value of YAML."""

from __future__ import annotations

import re
from typing import Final

from connector.declare.tree import NULLS

_PLAIN: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_./+=;-]|:(?=[A-Za-z0-9_/]))*")
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def scalar(text: str) -> str:
    """Returns a text as a single value of YAML, in quotes unless the text is harmless everywhere."""
    if _PLAIN.fullmatch(text) and text not in NULLS:
        return text
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
