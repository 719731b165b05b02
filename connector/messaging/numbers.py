"""Reads numbers from text, in the same notation at every edge.

The notation is that of the attributes of business objects: digits from 0 to 9, with a sign, and white space
around them does not count. Python reads more: digits of other scripts, ``1_000``, ``inf``.
"""

from __future__ import annotations

import math
import re
from typing import Final

MAX_INT: Final = (1 << 31) - 1
"""The largest number of 32 bits."""
MAX_LONG: Final = (1 << 63) - 1
"""The largest number of 64 bits. JMSExpiration is at most this (JMS 2.0, 7.8)."""

SPACE: Final = " \t\r\n"
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOST_DIGITS: Final = 19
"""The digits of the largest long."""


def read_whole(text: str) -> int:
    """Returns a whole number within 64 bits.

    Raises:
        ValueError: the text is no whole number, or the number has more than 64 bits. The error does not
            repeat the text.
    """
    stripped = text.strip(SPACE)
    if not _WHOLE.fullmatch(stripped):
        raise ValueError("expected a whole number: digits with an optional sign")
    # Python refuses numbers of very many digits, so leading zeros go first.
    digits = stripped.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= _MOST_DIGITS else MAX_LONG + 2
    number = -number if stripped[0] == "-" else number
    if not -MAX_LONG - 1 <= number <= MAX_LONG:
        raise ValueError("the number does not fit 64 bits")
    return number


def read_number(text: str, *, finite: bool = True) -> float:
    """Returns a number within 64 bit floats.

    Args:
        finite: False = ``NaN``, ``Infinity`` and ``-Infinity`` are numbers, too, as Java writes them.

    Raises:
        ValueError: the text is no number, or the number is out of range.
    """
    stripped = text.strip(SPACE)
    if not finite and stripped.lstrip("+-") in ("NaN", "Infinity") and len(stripped) <= len("-Infinity"):
        return float(stripped)
    if not _NUMBER.fullmatch(stripped):
        raise ValueError("expected a number, such as 12.5 or 1e-3")
    number = float(stripped)
    if math.isinf(number):
        raise ValueError("the number is beyond the range of 64 bits")
    return number
