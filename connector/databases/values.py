"""Values for columns: which attribute types fit which columns, and what the driver gets for a value.

A value is stored whole or refused. Zeros at the end of a number and the zone of an instant are no part of it.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Mapping
from ctypes import c_float
from decimal import Decimal
from functools import partial
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.types import TypeEngine

from connector.businessobjects.dates import Unkeepable, read_time
from connector.businessobjects.types import DECIMAL, TEXTS, describe, text_of
from connector.databases import column_types as holds
from connector.databases.column_types import ColumnType
from connector.text.decimals import plain, size
from connector.text.json_text import to_json_text

_MOST_DIGITS: Final = 6
"""The digits after the second that Python and databases keep."""
_FRACTION: Final = re.compile(r"[.,]([0-9]+)")
_SQLITE_DIGITS: Final = 15
"""SQLite keeps numbers as floats of 64 bits, which have so many decimal digits at least."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NUL_IN_JSON: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")

_NUMBERS: Final = (holds.NUMBER, holds.FLOAT, holds.SINGLE, holds.MONEY)
_FITS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(TEXTS, (holds.TEXT, holds.PADDED, holds.UUID, holds.LIST, holds.OTHER)),
    "Boolean": (holds.BOOLEAN,),
    "Integer": (holds.WHOLE, *_NUMBERS),
    "Float": _NUMBERS,
    "Double": _NUMBERS,
    DECIMAL: (holds.NUMBER, holds.MONEY, holds.TEXT, holds.PADDED),
    "Date": (holds.DATE, holds.TIME, holds.TEXT, holds.PADDED),
}
"""Beside JSON, which holds every type."""


class Unfit(ValueError):
    """A column does not hold a value whole. The text names what was found and what is expected."""


def fits(attribute_type: str, column: ColumnType) -> bool:
    """Whether values of an attribute type can go into a column."""
    return column.family in (*_FITS[attribute_type], holds.JSON, holds.ANY)


def converter(column: ColumnType, dialect: str) -> Callable[[Any], Any]:
    """Returns a function that converts values for a column. A blank is NULL, but a text stays one.

    The function raises :class:`Unfit`.

    Args:
        dialect: the name that SQLAlchemy gives the database.
    """
    convert = _CONVERTERS[column.family]
    keeps_blanks = column.family in (
        *(holds.TEXT, holds.PADDED, holds.JSON, holds.LIST, holds.OTHER, holds.ANY),
    )

    def checked(value: Any) -> Any:
        if value is None or (value == "" and not keeps_blanks):
            return None
        try:
            return convert(value, column, dialect)
        except Unfit:
            raise
        except Unkeepable as error:
            raise Unfit(f"found {describe(value)}, expected {error}") from None
        except (TypeError, ValueError, OverflowError):
            raise Unfit(f"found {describe(value)}, expected {column.family}") from None

    return checked


def _only(kinds: tuple[type, ...], value: Any, column: ColumnType, dialect: str) -> Any:
    if type(value) not in kinds:
        raise TypeError
    return value


# --- numbers ---------------------------------------------------------------------------------


def _whole(value: Any, column: ColumnType, dialect: str) -> Any:
    _only((int,), value, column, dialect)
    if column.size is not None and not -1 << column.size - 1 <= value < 1 << column.size - 1:
        raise Unfit(f"found {describe(value)}, expected a whole number of {column.size} bits")
    return value


def _number(value: Any, column: ColumnType, dialect: str) -> Any:
    """Returns an exact number. Nothing is rounded, here or in the database."""
    _only((int, float, Decimal), value, column, dialect)
    exact = Decimal(repr(value)) if type(value) is float else Decimal(value)
    if not exact.is_finite():
        raise ValueError
    if dialect != "sqlite":
        _check_places(exact, column)
        return exact
    if type(value) is Decimal:
        _check_sqlite_digits(exact, column)
        _check_places(exact, column)
        return float(exact)
    return value if type(value) is float else _whole(value, column._replace(size=64), dialect)


def _check_sqlite_digits(value: Decimal, column: ColumnType) -> None:
    digits, _ = size(value)
    if digits > _SQLITE_DIGITS:
        raise Unfit(
            f"found a number of {digits} digits, expected at most {_SQLITE_DIGITS}, which SQLite keeps as "
            f"{column.name}; a TEXT column keeps all"
        )


def _check_places(value: Decimal, column: ColumnType) -> None:
    """Refuses a number with digits for which the column has no place."""
    if column.scale is not None and value and _last_place(value) < -column.scale:
        if column.scale < 0:
            raise Unfit(f"found {describe(value)}, expected a multiple of {10**-column.scale}")
        _, places = size(value)
        raise Unfit(
            f"found {describe(value)} with {places} places after the point, expected at most {column.scale}"
        )
    if column.size is not None and value and value.adjusted() >= column.size - (column.scale or 0):
        most = column.size - (column.scale or 0)
        if most < 0:
            raise Unfit(f"found {describe(value)}, expected less than {plain(Decimal(1).scaleb(most))}")
        found = value.adjusted() + 1
        raise Unfit(f"found {describe(value)} with {found} digits before the point, expected at most {most}")


def _last_place(value: Decimal) -> int:
    """Returns the power of ten of the last digit that is not zero."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # the number is finite
    return exponent + next(zeros for zeros, digit in enumerate(reversed(digits)) if digit)


def _float(value: Any, column: ColumnType, dialect: str) -> Any:
    number = float(_only((int, float), value, column, dialect))
    if number != value or (column.family == holds.SINGLE and not _is_single(number)):
        raise Unfit(f"found {describe(value)}, expected {column.family}, which {column.name} holds")
    return number


def _is_single(number: float) -> bool:
    """Whether the shortest text of the nearest number of 32 bits, which clients read, is this number."""
    nearest = c_float(number).value
    shortest = (float(f"{nearest:.{digits}g}") for digits in range(1, 10))
    return next(one for one in shortest if c_float(one).value == nearest) == number


# --- times -----------------------------------------------------------------------------------


def _date(value: Any, column: ColumnType, dialect: str) -> Any:
    return datetime.date.fromisoformat(value)


def _time(value: Any, column: ColumnType, dialect: str) -> Any:
    """Returns a time of which the column loses and invents no part."""
    time = read_time(value)
    if column.has_zone and time.tzinfo is None:
        raise Unfit(f"found {describe(value)} without a zone, expected one with a zone, as the column has")
    if time.tzinfo is not None and not column.has_zone:
        raise Unfit(
            f"found {describe(value)} with a zone, expected one without, or a text column to keep the zone"
        )
    digits = _MOST_DIGITS if column.scale is None else column.scale
    fraction = _FRACTION.search(value)
    if fraction is not None and len(fraction[1].rstrip("0")) > digits:
        raise Unfit(f"found {describe(value)}, expected at most {digits} digits after the second")
    return time


# --- texts -----------------------------------------------------------------------------------


def _text(value: Any, column: ColumnType, dialect: str) -> Any:
    text = text_of(value) if type(value) is Decimal else _only((str,), value, column, dialect)
    if column.size is not None and len(text) > column.size:
        raise Unfit(f"found a text of {len(text)} characters, expected at most {column.size}")
    if column.family == holds.PADDED and text.endswith(" "):
        raise Unfit(f"found {describe(text)}, expected no blank at its end, where {column.name} has its own")
    _check_characters(text, dialect)
    return text


def _check_characters(text: str, dialect: str) -> None:
    if "\0" in text and dialect == "postgresql":
        raise Unfit("found a text with the character U+0000, expected one without: PostgreSQL holds none")
    if _SURROGATE.search(text):
        raise Unfit("found a text with half of a surrogate pair, expected characters of Unicode")


def _uuid(value: Any, column: ColumnType, dialect: str) -> Any:
    found = uuid.UUID(_only((str,), value, column, dialect))
    if str(found) != value:
        raise Unfit(f"found {describe(value)}, expected {str(found)!r}, which the column makes of it")
    return found


def _json(value: Any, column: ColumnType, dialect: str) -> Any:
    if dialect == "sqlite" and type(value) is Decimal:
        _check_sqlite_digits(value, column)
    if dialect != "postgresql":
        return value
    text = to_json_text(value)
    _check_characters(text, dialect)
    if "jsonb" in column.name and _NUL_IN_JSON.search(text):
        raise Unfit("found a text with the character U+0000, expected one without: jsonb holds none")
    return text


def _list(value: Any, column: ColumnType, dialect: str) -> Any:
    """Returns a list with its values converted, or the text of a list as the database writes one."""
    assert column.item is not None
    if type(value) is not list:
        return _text(value, column, dialect)
    return [converter(column.item, dialect)(one) for one in value]


def _other(value: Any, column: ColumnType, dialect: str) -> Any:
    text = text_of(_only((str, bool, int, float, Decimal), value, column, dialect))
    _check_characters(text, dialect)
    return text


def _any(value: Any, column: ColumnType, dialect: str) -> Any:
    if type(value) is int:
        return _whole(value, column._replace(size=64), dialect)
    return value if type(value) in (bool, float) else _text(value, column, dialect)


_CONVERTERS: Final[Mapping[str, Callable[[Any, ColumnType, str], Any]]] = {
    holds.BOOLEAN: partial(_only, (bool,)),
    holds.WHOLE: _whole,
    holds.NUMBER: _number,
    holds.MONEY: _number,
    holds.FLOAT: _float,
    holds.SINGLE: _float,
    holds.DATE: _date,
    holds.TIME: _time,
    holds.TEXT: _text,
    holds.PADDED: _text,
    holds.UUID: _uuid,
    holds.JSON: _json,
    holds.LIST: _list,
    holds.OTHER: _other,
    holds.ANY: _any,
    holds.NOTHING: partial(_only, ()),
}


def decimal_type(digits: int, scale: int | None, dialect: str) -> TypeEngine[Any]:
    """Returns a type of columns that holds every Decimal of these limits.

    Args:
        digits, scale: as :class:`connector.businessobjects.definition.Attribute` has them.
        dialect: the name that SQLAlchemy gives the database.
    """
    if dialect == "sqlite" and not 0 < digits <= _SQLITE_DIGITS:
        return types.Text()
    if digits and scale is not None:
        return types.Numeric(digits + scale, scale)  # all digits may stand before the point
    return types.Numeric()
