"""Values of the type Decimal: exact numbers in decimal notation.

A value is a :class:`decimal.Decimal` that is finite. Nothing is rounded, and trailing zeros stay. A zero has
no sign.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from connector.text.names import cut, shown

MAX_ZEROS: Final = 1000
"""Zeros that may stand between the digits of a number and its decimal point. A longer row is malformed,
because a short number with an exponent would become a huge text."""

_NOTATION: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_XML_SPACE: Final = " \t\r\n"
_SHOWN: Final = 40


class ExactFloat(float):
    """A number of JSON with a decimal point or an exponent, and its text."""

    def __new__(cls, text: str) -> ExactFloat:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


class ExactInteger(int):
    """A whole number of JSON that is written with a decimal point or an exponent, and its text."""

    text: str

    @classmethod
    def of(cls, number: ExactFloat) -> ExactInteger:
        made = cls(number)
        made.text = number.text
        return made


def plain(number: Decimal) -> str:
    """Returns the digits of a number, without an exponent."""
    return format(number, "f")


def from_number(value: Any, digits: int = 0, scale: int | None = None) -> Decimal | str:
    """Returns a value of Python or JSON as a Decimal.

    Args:
        value: a Decimal, an integer, or the text of a number. A float only if JSON had its digits, because
            another float has no exact digits.
        digits: the most significant digits. 0 = any number.
        scale: the most places after the point. None = any number.

    Raises:
        ValueError: the value does not fit. The text names the found and the expected value.
        TypeError: the value is no number.
    """
    if isinstance(value, str):
        return _fitting(_parse(value, value), digits, scale) if value else ""
    if isinstance(value, ExactFloat | ExactInteger):
        return _fitting(_parse(value.text, value.text), digits, scale)
    if isinstance(value, Decimal):
        return _fitting(Decimal(value), digits, scale)
    if isinstance(value, int) and not isinstance(value, bool):
        return _fitting(Decimal(value), digits, scale)
    if isinstance(value, float):
        raise ValueError(
            f"found the float {value!r}, which is not exact, expected a decimal.Decimal, an integer, or the "
            "digits as a text"
        )
    raise TypeError


def from_text(value: str, digits: int = 0, scale: int | None = None) -> Decimal | str:
    """Works like :func:`from_number`, for a text. White space around the number does not count."""
    return _fitting(_parse(value.strip(_XML_SPACE), value), digits, scale) if value else ""


def _parse(text: str, found: str) -> Decimal:
    if _NOTATION.fullmatch(text) is None:
        raise ValueError(f"found the text {shown(found, _SHOWN)}, expected a number")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(_too_many_zeros(text)) from None


def _fitting(number: Decimal, digits: int, scale: int | None) -> Decimal:
    if not number.is_finite():
        raise ValueError(f"found {number}, expected a finite number")
    if not number:
        number = number.copy_abs()
    adjusted = number.adjusted()
    if not -MAX_ZEROS <= adjusted <= MAX_ZEROS and _zeros(number) > MAX_ZEROS:
        raise ValueError(_too_many_zeros(str(number)))
    if digits or scale is not None:
        significant, places = size(number)
        if scale is not None and places > scale:
            raise ValueError(
                f"found {_show(number)} with {places} places after the point, expected at most {scale}"
            )
        if digits and significant > digits:
            raise ValueError(f"found {_show(number)} with {significant} digits, expected at most {digits}")
    return number


def size(number: Decimal) -> tuple[int, int]:
    """Returns the number of significant digits and of places after the point.

    Zeros at the end of the places do not count, as in XML Schema: 10.00 has two digits and no place. 0.05 has
    two of each.
    """
    whole, _, fraction = plain(number.copy_abs()).partition(".")
    places = len(fraction.rstrip("0"))
    return max(len(whole.lstrip("0")) + places, 1), places


def _zeros(number: Decimal) -> int:
    """Returns the number of zeros between the digits and the decimal point."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)  # the number is finite
    return exponent if exponent > 0 else max(-exponent - len(digits), 0)


def _too_many_zeros(text: str) -> str:
    return (
        f"found the number {cut(text, _SHOWN)}, expected at most {MAX_ZEROS} zeros between its digits and "
        "the decimal point"
    )


def _show(number: Decimal) -> str:
    return f"the number {cut(plain(number), _SHOWN)}"
