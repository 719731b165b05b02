"""The kinds of single values in a sample, and the attribute types that hold them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from connector.businessobjects.types import MAX_INTEGER, MIN_INTEGER, text_converter

INTEGER: Final = "a whole number of 32 bits"
LONG: Final = "a whole number beyond 32 bits"
HUGE: Final = "a number with more digits than a Double keeps"
DOUBLE: Final = "a number"
BOOLEAN: Final = "true or false"
DATE: Final = "a date"
TEXT: Final = "a text"
BLANK: Final = "a blank text"
SPACE: Final = "white space"

_EXACT: Final = 2**53
"""Up to here a Double holds every whole number."""
_DIGITS: Final = 15
"""Decimal digits that a Double always keeps."""
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[TZ+-].*)?")

_BEYOND: Final = "whole numbers beyond 32 bits: exact up to 2**53, written with a decimal point"
_AS_TEXT: Final = "numbers that no number type keeps exactly, so a text; JSON has to put them in quotes"


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
    if _INTEGER.fullmatch(text):
        if len(text) > 20:
            return HUGE
        number = int(text)
        if MIN_INTEGER <= number <= MAX_INTEGER:
            return INTEGER
        return LONG if -_EXACT <= number <= _EXACT else HUGE
    if len(text) > 400 or not _DECIMAL.fullmatch(text):
        return None
    try:
        text_converter("Double")(text)
    except ValueError:
        return None  # beyond the range of 64 bits
    digits = re.sub(r"[eE].*|[^0-9]", "", text).strip("0")
    return DOUBLE if len(digits) <= _DIGITS else HUGE


def type_of_texts(kinds: Collection[str]) -> tuple[str, str]:
    """Returns the type of values that are written as text, and a comment. Every text fits a String."""
    found = set(kinds)
    if found <= {INTEGER, DOUBLE} and found:
        return ("Integer", "") if found == {INTEGER} else ("Double", "")
    if found == {BOOLEAN}:
        return "Boolean", ""
    if found == {DATE}:
        return "Date", ""
    return "String", _AS_TEXT if found & {LONG, HUGE} and not found & {TEXT, DATE, BOOLEAN} else ""


def type_of_json(kinds: Collection[str]) -> tuple[str, str] | None:
    """Returns the type of JSON values, and a comment. None = they fit no common type."""
    found = set(kinds) - {BLANK}  # every type has it
    if found <= {DATE, TEXT}:
        return ("Date", "") if found == {DATE} else ("String", "")
    if found <= {INTEGER, LONG, DOUBLE, HUGE}:
        if found == {INTEGER}:
            return "Integer", ""
        if HUGE in found:
            return "String", _AS_TEXT
        return "Double", _BEYOND if LONG in found else ""
    return ("Boolean", "") if found == {BOOLEAN} else None
