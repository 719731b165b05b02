"""Literals: Java's for numbers, SQL's for strings (JMS 2.0, 3.8.1.1)."""

from __future__ import annotations

import re
import struct

LONG_LIMIT = 1 << 63
"""The largest long plus 1. As a literal valid only behind a minus."""

_DECIMAL = re.compile(r"(0|[1-9](?:[0-9_]*[0-9])?)[lL]?")
_WITH_BASE = (
    (16, re.compile(r"0[xX]([0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?)[lL]?")),
    (2, re.compile(r"0[bB]([01](?:[01_]*[01])?)[lL]?")),
    (8, re.compile(r"0([0-7_]*[0-7])[lL]?")),
)
_DIGITS = r"[0-9](?:[0-9_]*[0-9])?"
_EXPONENT = rf"[eE][+-]?{_DIGITS}"
_APPROXIMATE = re.compile(
    rf"((?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS})(?:{_EXPONENT})?|{_DIGITS}(?:{_EXPONENT}|(?=[fFdD])))([fFdD]?)"
)
_HEX = r"[0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?"
_HEX_APPROXIMATE = re.compile(rf"(0[xX](?:{_HEX}\.?|(?:{_HEX})?\.{_HEX})[pP][+-]?{_DIGITS})([fFdD]?)")


def parse_number(text: str) -> int | float:
    """Reads a number without a sign. Every exact number is a long.

    Numbers to base 16, 8 and 2 may use the sign bit, as in Java: ``0xFFFFFFFFFFFFFFFF`` is -1. A decimal
    number may be :data:`LONG_LIMIT`, of which only the negative is a long.

    Raises:
        ValueError: the text is no number, or the number is out of range.
    """
    match = _DECIMAL.fullmatch(text)
    if match:
        digits = match[1].replace("_", "")
        # Counts the digits first, because Python refuses numbers of very many digits.
        if len(digits) > 19 or int(digits) > LONG_LIMIT:
            raise ValueError("a number within the range of a long (64 bits)")
        return int(digits)
    for base, expression in _WITH_BASE:
        match = expression.fullmatch(text)
        if match:
            number = int(match[1].replace("_", ""), base)
            if number >= 2 * LONG_LIMIT:
                raise ValueError("a number within the range of a long (64 bits)")
            return number if number < LONG_LIMIT else number - 2 * LONG_LIMIT
    match = _APPROXIMATE.fullmatch(text)
    if match:
        return _in_range(float(match[1].replace("_", "")), match[1].lower().partition("e")[0], match[2])
    match = _HEX_APPROXIMATE.fullmatch(text)
    if match:
        mantissa = match[1].lower().partition("p")[0].removeprefix("0x")
        try:
            return _in_range(float.fromhex(match[1].replace("_", "")), mantissa, match[2])
        except OverflowError:
            raise ValueError("a number within the range of a double") from None
    raise ValueError("a number")


def _in_range(number: float, mantissa: str, suffix: str) -> float:
    """Checks the range as Java does. Too large is an error, and so is too small to differ from zero."""
    kind = "double"
    if suffix in ("f", "F"):
        kind = "float"
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            number = float("inf")
    if number == float("inf") or (number == 0 and mantissa.strip("0._")):
        raise ValueError(f"a number within the range of a {kind}")
    return number


def parse_string(text: str) -> str:
    """Returns the text between the quotes, with ``'`` for each ``''`` in it."""
    return text[1:-1].replace("''", "'")
