"""Values for columns: which attribute types fit which types of columns, and how values are converted."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.types import TypeEngine

from connector.businessobjects.dates import Unkeepable, read_time
from connector.businessobjects.types import DECIMAL, TEXTS, describe, text_of
from connector.text.decimals import size

_FAMILIES: Final[tuple[tuple[type[TypeEngine[Any]], str], ...]] = (
    (types.Boolean, "a boolean"),
    (types.Integer, "a whole number"),
    (types.Float, "a number of 64 bits"),
    (types.Numeric, "a number"),
    (types.DateTime, "a date and time"),
    (types.Date, "a date"),
    (types.Uuid, "a UUID"),
    (types.JSON, "JSON"),
    (types.LargeBinary, "bytes"),
    (types.String, "a text"),
)
"""The types of SQLAlchemy, subclasses first, and words for the values."""
_ANY: Final = "any value"
_MOST_DIGITS: Final = 6
"""The digits after the second that Python and databases keep."""
_FRACTION: Final = re.compile(r"[.,]([0-9]+)")
_SQLITE_DIGITS: Final = 15
"""SQLite keeps numbers as floats of 64 bits, which have so many decimal digits at least."""

_FITS: Final = {
    **dict.fromkeys(TEXTS, ("a text", "a UUID", "JSON")),
    "Boolean": ("a boolean", "JSON"),
    "Integer": ("a whole number", "a number", "a number of 64 bits", "JSON"),
    "Float": ("a number", "a number of 64 bits", "JSON"),
    "Double": ("a number", "a number of 64 bits", "JSON"),
    DECIMAL: ("a number", "a text", "JSON"),
    "Date": ("a date", "a date and time", "a text", "JSON"),
}


def family_of(kind: TypeEngine[Any]) -> str:
    """Returns the words for the values of a column type."""
    return next((words for one, words in _FAMILIES if isinstance(kind, one)), _ANY)


def fits(attribute_type: str, kind: TypeEngine[Any]) -> bool:
    """Whether every value of an attribute type can go into a column type."""
    family = family_of(kind)
    return family == _ANY or family in _FITS[attribute_type]


def converter(kind: TypeEngine[Any], dialect: str = "") -> Callable[[Any], Any]:
    """Returns a function that converts values for a column type. A blank is NULL, but a text stays one.

    The function raises ValueError. Its text names the found and the expected value.

    Args:
        kind: the type of the column.
        dialect: the name that SQLAlchemy gives the database. Empty = not known.
    """
    family = family_of(kind)
    convert = _CONVERTERS.get(family, lambda value: value)

    def checked(value: Any) -> Any:
        if value is None or (value == "" and family not in ("a text", "JSON", _ANY)):
            return None
        if isinstance(value, Decimal):
            return _decimal(value, kind, family, dialect)
        try:
            converted = convert(value)
        except Unkeepable as error:
            raise ValueError(f"found {describe(value)}, expected {error}") from None
        except (TypeError, ValueError):
            raise ValueError(f"found {describe(value)}, expected {family}") from None
        if isinstance(converted, datetime.datetime):
            _check_time(value, converted, kind)
        if type(converted) is float and family == "a number" and dialect != "sqlite":
            _check_places(Decimal(repr(converted)), kind)  # the database would round
        return converted

    return checked


def _check_time(text: str, time: datetime.datetime, kind: TypeEngine[Any]) -> None:
    """Refuses a time of which a column would lose or invent a part.

    Raises:
        ValueError: the column has no zone and the time has one, or the other way round. Or the time has more
            digits of a second than the column.
    """
    has_zone = bool(getattr(kind, "timezone", False))
    if has_zone and time.tzinfo is None:
        raise ValueError(
            f"found {describe(text)} without a zone, expected one with a zone, as the column has"
        )
    if time.tzinfo is not None and not has_zone:
        raise ValueError(
            f"found {describe(text)} with a zone, expected one without, or a text column to keep the zone"
        )
    digits = getattr(kind, "precision", None)
    digits = _MOST_DIGITS if digits is None else digits
    fraction = _FRACTION.search(text)
    if fraction is not None and len(fraction[1].rstrip("0")) > digits:
        raise ValueError(f"found {describe(text)}, expected at most {digits} digits after the second")


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


def _decimal(value: Decimal, kind: TypeEngine[Any], family: str, dialect: str) -> Any:
    """Returns what the driver gets for an exact number. Nothing is rounded, here or in the database.

    Raises:
        ValueError: the column cannot hold the number.
    """
    digits, _ = size(value)
    if family == "a text" or (family == _ANY and dialect == "sqlite"):
        return text_of(value)
    if family not in ("a number", "JSON", _ANY):
        raise ValueError(f"found {describe(value)}, expected {family}")
    if dialect == "sqlite" and digits > _SQLITE_DIGITS:
        raise ValueError(
            f"found a number of {digits} digits, expected at most {_SQLITE_DIGITS}, which SQLite keeps as "
            f"{kind}; a TEXT column keeps all"
        )
    _check_places(value, kind)
    return float(value) if dialect == "sqlite" and family == "a number" else value


def _check_places(value: Decimal, kind: TypeEngine[Any]) -> None:
    """Refuses a number with more digits than a column.

    Raises:
        ValueError: the column has fewer digits before or after the point.
    """
    if not isinstance(kind, types.Numeric):
        return
    digits, places = size(value)
    whole = digits - places
    if kind.scale is not None and places > kind.scale:
        raise ValueError(
            f"found {describe(value)} with {places} places after the point, expected at most {kind.scale}"
        )
    if kind.precision is not None and whole > kind.precision - (kind.scale or 0):
        most = kind.precision - (kind.scale or 0)
        raise ValueError(
            f"found {describe(value)} with {whole} digits before the point, expected at most {most}"
        )


def _only(*kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError
        return value

    return check


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "a boolean": _only(bool),
    "a whole number": _only(int),
    "a number": _only(int, float),
    "a number of 64 bits": _only(int, float),
    "a date and time": read_time,
    "a date": datetime.date.fromisoformat,
    "a UUID": lambda value: uuid.UUID(_only(str)(value)),
    "a text": _only(str),
}
