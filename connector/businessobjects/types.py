"""The simple attribute types: the valid values of each, as a typed value and as text.

Nothing is guessed: a value that does not fit its type is an error. ``""`` is *blank*, an explicitly
empty value, and allowed for every type. None is *ignore*, the same as not set (CxBlank and CxIgnore in
WBI Adapter for JMS).

========  =====================================  ==========================================
type      typed value (JSON, Python)             text (XML, plain text)
========  =====================================  ==========================================
String    text                                   the text unchanged
LongText  text                                   the text unchanged
Cipher-   text, which no error shows             the text unchanged
text
Boolean   true, false                            ``true``, ``false``, ``1``, ``0``
Integer   an integer of 32 bits                  digits with an optional sign
Float     a number within 32 bit floats          decimal, with an optional exponent
Double    a number within 64 bit floats          decimal, with an optional exponent
Decimal   an exact number, or its text           decimal, with an optional exponent. Written as digits
Date      ISO 8601 date or date-time, also a     the same, kept as text
          date with a zone (XML Schema)
========  =====================================  ==========================================

For Boolean, Integer, Float, Double, Decimal and Date, white space around the text does not count, as in XML
Schema. A Float keeps the precision in which the number was written. Only its range is that of 32 bits.
:mod:`connector.text.decimals` explains Decimal.
"""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from connector.text.decimals import ExactFloat, from_number, from_text, plain
from connector.text.names import cut, shown

SimpleValue = str | int | float | bool | Decimal
Converter = Callable[[Any], SimpleValue]

SECRET: Final = "Ciphertext"
"""The type of texts that no log, error or ``repr`` shows. Bodies contain the text."""

TEXTS: Final = ("String", "LongText", SECRET)
"""The types that accept any text."""

HELD_AS_TEXT: Final = (*TEXTS, "Date")
"""The types whose values are texts."""

DECIMAL: Final = "Decimal"
"""The type of exact numbers, such as money."""

NUMBERS: Final = ("Integer", "Float", "Double", DECIMAL)
"""The types whose values are numbers."""

SIMPLE_TYPES: Final = ("String", "LongText", SECRET, "Boolean", "Integer", "Float", "Double", DECIMAL, "Date")
"""Attribute types that are no business object. Any other type is the name of a business object."""

MIN_INTEGER: Final = -2147483648
MAX_INTEGER: Final = 2147483647
MAX_FLOAT: Final = 3.4028235677973362e38
"""The largest number of a Float. The smallest is its negative.

Java writes the largest float of 32 bits as 3.4028235E38, which is larger than it. So the limit is the largest
number that is rounded to that float.
"""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_XML_SPACE: Final = " \t\r\n"
_DATE: Final = re.compile(
    r"(?!0000)([0-9]{4})(-?)(0[1-9]|1[0-2])\2(0[1-9]|[12][0-9]|3[01])"
    r"(?:T(?:(?:[01][0-9]|2[0-3])(?::?[0-5][0-9](?::?(?:[0-5][0-9]|60)(?:[.,][0-9]+)?)?)?"
    r"|24(?::?00(?::?00(?:[.,]0+)?)?)?)"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
    r"|Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
)
"""Calendar dates, extended or basic. A day may end at 24:00. A minute may have a 61st second.

A date without a time may have a zone, as in XML Schema.
"""
_SHOWN: Final = 40


def typed_converter(
    type_name: str, max_length: int = 0, digits: int = 0, scale: int | None = None
) -> Converter:
    """Returns a function that checks a typed value for ``type_name`` and returns the value to store.

    The function raises :class:`ValueError`. The text names the found and the expected value, but no place.

    Args:
        type_name: a name of :data:`SIMPLE_TYPES`.
        max_length: characters of a text. 0 = unlimited.
        digits: significant digits of a Decimal. 0 = unlimited.
        scale: places of a Decimal after the point. None = unlimited.
    """
    if type_name in TEXTS:
        return _string_converter(max_length, type_name == SECRET)
    if type_name == DECIMAL:
        return _decimal_converter(digits, scale)
    return _TYPED[type_name]


def text_converter(
    type_name: str, max_length: int = 0, digits: int = 0, scale: int | None = None
) -> Converter:
    """Works like :func:`typed_converter`, from text in the notation of the table above."""
    if type_name in TEXTS:
        return _string_converter(max_length, type_name == SECRET)
    if type_name == DECIMAL:
        return lambda value: from_text(value, digits, scale)
    return _TEXT[type_name]


def text_of(value: SimpleValue) -> str:
    """Returns a value in the notation that :func:`text_converter` reads."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain(value) if isinstance(value, Decimal) else str(value)


def describe(value: object) -> str:
    """Returns the words by which an error names a value that was found: short, and by kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        try:
            digits = str(value)
        except ValueError:  # an integer with more digits than Python writes
            return "a huge number"
        return f"the number {cut(digits, _SHOWN)}"
    if isinstance(value, Decimal):
        return "a huge number"
    if isinstance(value, str):
        return f"the text {shown(value, _SHOWN)}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return f"a value of type {type(value).__name__}"


def _string_converter(max_length: int, is_secret: bool) -> Converter:
    def check(value: Any) -> SimpleValue:
        if isinstance(value, str):
            if max_length and len(value) > max_length:
                raise ValueError(f"found a text of {len(value)} characters, expected at most {max_length}")
            return str.__str__(value)
        found = "another kind of value" if is_secret else describe(value)
        raise ValueError(f"found {found}, expected a text")

    if max_length:
        return check

    def check_unlimited(value: Any) -> SimpleValue:
        return value if type(value) is str else check(value)

    return check_unlimited


def _typed_boolean(value: Any) -> SimpleValue:
    if value is True or value is False:
        return bool(value)
    if isinstance(value, str) and not value:
        return ""
    raise ValueError(f"found {describe(value)}, expected true or false")


def _typed_integer(value: Any) -> SimpleValue:
    if type(value) is not int:
        if isinstance(value, str) and not value:
            return ""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"found {describe(value)}, expected an integer")
    if not MIN_INTEGER <= value <= MAX_INTEGER:
        raise ValueError(f"found {describe(value)}, expected an integer of 32 bits")
    return int(value)


def _typed_float(value: Any) -> SimpleValue:
    number = _typed_double(value)
    if isinstance(number, float) and abs(number) > MAX_FLOAT:
        raise ValueError(f"found {describe(value)}, expected a number within the range of 32 bits")
    return number


def _typed_double(value: Any) -> SimpleValue:
    if type(value) is not float:
        if isinstance(value, str) and not value:
            return ""
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise ValueError(f"found {describe(value)}, expected a number")
    try:
        number = float(value)
        if isinstance(value, Decimal) and not math.isfinite(number):
            raise OverflowError
    except OverflowError:
        raise ValueError("found a huge number, expected one within the range of 64 bits") from None
    if not math.isfinite(number):
        expected = (
            "a number within the range of 64 bits" if isinstance(value, ExactFloat) else "a finite number"
        )
        raise ValueError(f"found {describe(value)}, expected {expected}")
    return number


def _decimal_converter(digits: int, scale: int | None) -> Converter:
    def check(value: Any) -> SimpleValue:
        try:
            return from_number(value, digits, scale)
        except TypeError:
            raise ValueError(f"found {describe(value)}, expected a number") from None

    return check


def _typed_date(value: Any) -> SimpleValue:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str) and is_date(value):
        return str.__str__(value)
    raise ValueError(
        f"found {describe(value)}, expected an ISO 8601 date (2024-05-31) or date-time (2024-05-31T08:00:00Z)"
    )


@lru_cache(maxsize=4096)  # dates repeat
def is_date(text: str) -> bool:
    """Tells whether a text is a value of a Date: an ISO 8601 date or date-time, or blank."""
    if not text:
        return True
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, _, month, day = match.groups()
    if day <= "28":
        return True
    try:
        datetime.date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True


def _text_boolean(value: Any) -> SimpleValue:
    found = _BOOLEANS.get(value)
    if found is not None:
        return found
    text = value.strip(_XML_SPACE) if value else value
    if text == "" and not value:
        return ""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    raise ValueError(f"found {describe(value)}, expected true or false")


def _text_integer(value: Any) -> SimpleValue:
    if not value:
        return ""
    # What Python reads beyond the notation has other characters: digits of other scripts, 1_000, line ends.
    if len(value) < 12 and value.isascii() and value.isprintable() and "_" not in value:
        try:
            number = int(value)
        except ValueError:
            pass  # described below
        else:
            if MIN_INTEGER <= number <= MAX_INTEGER:
                return number
    text = value.strip(_XML_SPACE)
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"found {describe(value)}, expected an integer")
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 10:
        raise ValueError(f"found {describe(value)}, expected an integer of 32 bits")
    return _typed_integer(-int(digits) if text[0] == "-" else int(digits))


def _text_number(convert: Converter, largest: float) -> Converter:
    def parse(value: Any) -> SimpleValue:
        if not value:
            return ""
        if value.isascii() and value.isprintable() and "_" not in value:
            try:
                number = float(value)
            except ValueError:
                pass  # described below
            else:
                if -largest <= number <= largest:
                    return number
        text = value.strip(_XML_SPACE)
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"found {describe(value)}, expected a number")
        number = float(text)
        if math.isinf(number):
            raise ValueError(f"found {describe(value)}, expected a number within the range of its type")
        return convert(number)

    return parse


def _text_date(value: Any) -> SimpleValue:
    if type(value) is str and is_date(value):
        return value
    text = value.strip(_XML_SPACE)
    if not text:
        raise ValueError(f"found {describe(value)}, expected an ISO 8601 date")
    return _typed_date(text)


_TYPED: Final[dict[str, Converter]] = {
    "Boolean": _typed_boolean,
    "Integer": _typed_integer,
    "Float": _typed_float,
    "Double": _typed_double,
    "Date": _typed_date,
}
_TEXT: Final[dict[str, Converter]] = {
    "Boolean": _text_boolean,
    "Integer": _text_integer,
    "Float": _text_number(_typed_float, MAX_FLOAT),
    "Double": _text_number(_typed_double, sys.float_info.max),
    "Date": _text_date,
}
