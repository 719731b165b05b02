"""The place of a mistake in a text."""

from __future__ import annotations

import re
from typing import Final

_LINE_END: Final = re.compile(r"\r\n?|\n")


def place(text: str, offset: int) -> str:
    """Returns the line and the column of a character, from 1. LF, CR LF and CR end a line."""
    line, start = 1, 0
    for found in _LINE_END.finditer(text, 0, offset):
        line, start = line + 1, found.end()
    return f"line {line} column {offset - start + 1}"
