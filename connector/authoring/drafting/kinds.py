"""The kinds of single values in a sample, and the attribute types that hold them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from connector.businessobjects.types import MAX_INTEGER, MIN_INTEGER, text_converter
from connector.formats.date_format import DATE_FORMAT

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
CODE: Final = "digits with a zero in front"

_DIGITS: Final = 15
"""Decimal digits that a Double always keeps."""
_MOST_DIGITS: Final = 9
"""Digits before the point that a number in a text has at most. What has more is a code."""
_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_MAX_TEXT: Final = 1000
_MAX_COUNTRY: Final = 40
"""Characters of the longest number or date of a country."""
"""Characters of the longest text that counts as a number."""
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CODE: Final = re.compile(r"0[0-9]+|-0(?:\.0*)?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[TZ+-].*)?")

_NUMBER_OPTIONS: Final = "decimal or thousands"

_COUNTRY_NUMBER: Final = re.compile(
    r"[-+]?(?:[0-9]{1,3}(?:[.' ][0-9]{3})+|[0-9]+),[0-9]+-?|[0-9][0-9.,]*-|\([0-9][0-9.,]*\)"
    r"|-?[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+"
)
_COUNTRY_DATE: Final = re.compile(
    r"[0-9]{1,2}([./-])[0-9]{1,2}\1(?:[0-9]{4}|[0-9]{2})(?:[ T][0-9]{1,2}:[0-9]{2}.{0,12})?"
)

_NUMBERS: Final = frozenset((INTEGER, LONG, DECIMAL, HUGE, DOUBLE))


def kind_of_text(text: str) -> str | None:
    """Returns the kind of a value that is written as text. None = blank, which fits every type.

    A number with leading zeros or a plus sign is a text: as a number it would not be written back like that.
    So is a value with white space around it.
    """
    plain = text.strip(" \t\r\n")
    if not plain:
        return None
    if plain != text:
        return TEXT
    if text in ("true", "false"):
        return BOOLEAN
    if _CODE.fullmatch(text):
        return CODE
    return kind_of_number(text) or kind_of_string(text)


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


class Values:
    """The single values under one name, over all samples.

    Attributes:
        kinds: their kinds.
        lengths: the digits of the numbers, before the point.
        samples: the numbers of the samples that have a value.
        differ: whether there are two values. The same value everywhere says little.
        options: the options of a data handler by which all values are numbers or dates of a country, with the
            first of these values. Empty = none are so.
    """

    __slots__ = ("_first", "_is_other", "differ", "kinds", "lengths", "options", "samples")

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.lengths: set[int] = set()
        self.samples: set[int] = set()
        self.differ = False
        self.options: dict[str, str] = {}
        self._first: str | None = None
        self._is_other = False

    def add(self, kind: str, text: str, sample: int) -> None:
        """Adds a value.

        Args:
            text: the value as the sample writes it.
            sample: the number of the sample.
        """
        self.kinds.add(kind)
        self.samples.add(sample)
        self._first = text if self._first is None else self._first
        self.differ |= text != self._first
        if kind in _NUMBERS or kind == CODE:
            self.lengths.add(len(re.split("[.eE]", text.strip().lstrip("-"))[0]))
        elif kind != TEXT or self._is_other or len(text) > _MAX_COUNTRY:
            self._is_other = True
        elif _COUNTRY_NUMBER.fullmatch(text):
            self.options.setdefault(_NUMBER_OPTIONS, text)
        elif _COUNTRY_DATE.fullmatch(text):
            self.options.setdefault(DATE_FORMAT, text)
        else:
            self._is_other = True

    @property
    def of_country(self) -> tuple[str, str] | None:
        """The options by which all values are numbers or dates of a country, and the first such value."""
        is_date = DATE_FORMAT in self.options
        if self._is_other or len(self.options) != 1 or (is_date and self.kinds != {TEXT}):
            return None
        return next(iter(self.options.items()))


class Guess(NamedTuple):
    """The type of an attribute, as samples say it.

    Args:
        told: what a next body could break, or why the type is no other. Empty = nothing to tell.
    """

    type: str
    told: str = ""


def guess_of_texts(values: Values) -> Guess:
    """Returns the type of values that are written as text. Every text fits a String.

    A text that looks like a number loses zeros as a number. So it is a number only if several samples and the
    shape of all values say so (:func:`_are_numbers`). Truth needs several samples, too.
    """
    found = values.kinds
    if found and found <= {*_NUMBERS, CODE}:
        name = _type_of_numbers(found)
        if len(values.samples) > 1 and _are_numbers(values):
            return Guess(name, f"numbers in all samples, kept as {name}: zeros in front are lost")
        return Guess("String", f"{_digits(values)}, kept as String")
    if found == {BOOLEAN}:
        if len(values.samples) > 1:
            return Guess("Boolean", "true or false in all samples, kept as Boolean: 1 is written as true")
        return Guess("String", f"{BOOLEAN}, kept as String")
    return _of_dates(found) or Guess("String")


def guess_of_fields(values: Values) -> Guess:
    """Returns the type of values in a format that may have the notation of a country."""
    guess, found = guess_of_texts(values), values.of_country
    if guess.told or found is None:
        return guess
    options, example = found
    what, type_name = ("dates", "Date") if options == DATE_FORMAT else ("numbers", "Decimal")
    return Guess("String", f"{what} such as {example}, kept as String: a {type_name} needs {options}")


def guess_of_json(values: Values) -> Guess | None:
    """Returns the type of JSON values. None = they fit no common type.

    A number is a Decimal, which keeps every number of JSON. Several samples with whole numbers of 32 bits are
    an Integer. A text is never a number.
    """
    found = values.kinds - {BLANK}  # every type has it
    if found <= {DATE, TEXT}:
        return _of_dates(found) or Guess("String")
    if found == {INTEGER} and len(values.samples) > 1:
        return Guess("Integer", "whole numbers of 32 bits in all samples, kept as Integer")
    if found <= _NUMBERS:
        return Guess("Decimal")
    return Guess("Boolean") if found == {BOOLEAN} else None


def type_of_values(kinds: Collection[str]) -> str | None:
    """Returns the type of all JSON values that there can be. None = they fit no common type."""
    found = set(kinds) - {BLANK}
    if found <= {DATE, TEXT}:
        return "Date" if found == {DATE} else "String"
    if found <= _NUMBERS:
        return _type_of_numbers(found)
    return "Boolean" if found == {BOOLEAN} else None


def _type_of_numbers(kinds: Collection[str]) -> str:
    """Returns the type of numbers. A Decimal keeps all digits. A Double is for numbers with exponents."""
    found = set(kinds)
    if found == {INTEGER}:
        return "Integer"
    return "Double" if DOUBLE in found and not found & {LONG, HUGE} else "Decimal"


def _of_dates(found: Collection[str]) -> Guess | None:
    told = "dates in all samples, kept as Date: other texts are refused"
    return Guess("Date", told) if set(found) == {DATE} else None


def _are_numbers(values: Values) -> bool:
    """Tells whether texts of digits are numbers by their shape.

    They differ. None has a zero in front, an exponent or more than nine digits before the point. A value has
    a point, or the values have different lengths, or one digit each. Codes have one length, and some begin
    with a zero.
    """
    if not values.differ or not values.kinds <= {INTEGER, DECIMAL} or max(values.lengths) > _MOST_DIGITS:
        return False
    return DECIMAL in values.kinds or len(values.lengths) > 1 or values.lengths == {1}


def _digits(values: Values) -> str:
    """Returns the shape of texts that look like numbers, for people."""
    if values.kinds & {DECIMAL, DOUBLE, HUGE}:
        return DOUBLE if DOUBLE in values.kinds else DECIMAL
    if len(values.lengths) > 1:
        return "digits"
    (length,) = values.lengths
    number = _WORDS[length] if length < len(_WORDS) else str(length)
    return f"{number} digit{'' if length == 1 else 's'}"
