"""The kinds of single values in a sample, and the attribute types that hold them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from connector.businessobjects.types import MAX_INTEGER, MIN_INTEGER, text_converter

INTEGER: Final = "a whole number of 32 bits"
LONG: Final = "a whole number beyond 32 bits"
DECIMAL: Final = "a decimal number"
HUGE: Final = "a number with more digits than a Double keeps"
DOUBLE: Final = "a number with an exponent"
BOOLEAN: Final = "true or false"
DATE: Final = "a date"
TEXT: Final = "a text"
BLANK: Final = "a blank text"
SPACE: Final = "white space"

_DIGITS: Final = 15
"""Decimal digits that a Double always keeps."""
_MAX_TEXT: Final = 1000
"""Characters of the longest text that counts as a number."""
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[TZ+-].*)?")

_NUMBERS: Final = frozenset((INTEGER, LONG, DECIMAL, HUGE, DOUBLE))


def kind_of_text(text: str) -> str | None:
    """Returns the kind of a value that is written as text. None = blank, which fits every type.

    A number with leading zeros or a plus sign is a text: as a number it would not be written back like that.
    """
    text = text.strip(" \t\r\n")
    if not text:
        return None
    if text in ("true", "false"):
        return BOOLEAN
    number = kind_of_number(text)
    return number or kind_of_string(text)


def kind_of_string(text: str) -> str:
    """Returns the kind of a value that cannot be a number: a date or another text."""
    if len(text) > 40 or not _DATE.fullmatch(text):
        return TEXT
    try:
        text_converter("Date")(text)
    except ValueError:
        return TEXT
    return DATE


def kind_of_number(text: str) -> str | None:
    """Returns the kind of a number in decimal digits. None = the text is no such number."""
    if len(text) > _MAX_TEXT:
        return None
    if _INTEGER.fullmatch(text):
        return INTEGER if len(text) < 12 and MIN_INTEGER <= int(text) <= MAX_INTEGER else LONG
    if not _DECIMAL.fullmatch(text):
        return None
    has_exponent = "e" in text or "E" in text
    try:
        text_converter("Decimal" if not has_exponent else "Double")(text)
    except ValueError:
        return None  # beyond the range
    digits = re.sub(r"[eE].*|[^0-9]", "", text).strip("0")
    if len(digits) > _DIGITS:
        return HUGE
    return DOUBLE if has_exponent else DECIMAL


def _type_of_numbers(kinds: set[str]) -> str:
    """Returns the type of numbers. A Decimal keeps all digits. A Double is for numbers with exponents."""
    if kinds == {INTEGER}:
        return "Integer"
    return "Double" if DOUBLE in kinds and not kinds & {LONG, HUGE} else "Decimal"


def type_of_texts(kinds: Collection[str]) -> tuple[str, str]:
    """Returns the type of values that are written as text, and a comment. Every text fits a String."""
    found = set(kinds)
    if found and found <= _NUMBERS:
        return _type_of_numbers(found), ""
    if found == {BOOLEAN}:
        return "Boolean", ""
    return ("Date", "") if found == {DATE} else ("String", "")


def type_of_json(kinds: Collection[str]) -> tuple[str, str] | None:
    """Returns the type of JSON values, and a comment. None = they fit no common type."""
    found = set(kinds) - {BLANK}  # every type has it
    if found <= {DATE, TEXT}:
        return ("Date", "") if found == {DATE} else ("String", "")
    if found <= _NUMBERS:
        return _type_of_numbers(found), ""
    return ("Boolean", "") if found == {BOOLEAN} else None
