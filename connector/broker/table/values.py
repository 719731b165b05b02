"""Values for columns: which attribute types fit which types of columns, and how values are converted."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.types import TypeEngine

from connector.businessobjects.types import TEXTS, describe

_FAMILIES: Final[tuple[tuple[type[TypeEngine[Any]], str], ...]] = (
    (types.Boolean, "a boolean"),
    (types.Integer, "a whole number"),
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

_FITS: Final = {
    **dict.fromkeys(TEXTS, ("a text", "a UUID", "JSON")),
    "Boolean": ("a boolean", "JSON"),
    "Integer": ("a whole number", "a number", "JSON"),
    "Float": ("a number", "JSON"),
    "Double": ("a number", "JSON"),
    "Date": ("a date", "a date and time", "a text", "JSON"),
}


def family_of(kind: TypeEngine[Any]) -> str:
    """Returns the words for the values of a column type."""
    return next((words for one, words in _FAMILIES if isinstance(kind, one)), _ANY)


def fits(attribute_type: str, kind: TypeEngine[Any]) -> bool:
    """Whether every value of an attribute type can go into a column type."""
    family = family_of(kind)
    return family == _ANY or family in _FITS[attribute_type]


def converter(kind: TypeEngine[Any]) -> Callable[[Any], Any]:
    """Returns a function that converts values for a column type. A blank is NULL, but a text stays one.

    The function raises ValueError. Its text names the found and the expected value.
    """
    family = family_of(kind)
    convert = _CONVERTERS.get(family, lambda value: value)

    def checked(value: Any) -> Any:
        if value is None or (value == "" and family not in ("a text", "JSON", _ANY)):
            return None
        try:
            return convert(value)
        except (TypeError, ValueError):
            raise ValueError(f"found {describe(value)}, expected {family}") from None

    return checked


def _only(*kinds: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError
        return value

    return check


def _date(value: Any) -> datetime.date:
    return datetime.date.fromisoformat(value)


def _date_and_time(value: Any) -> datetime.datetime:
    return datetime.datetime.fromisoformat(value)


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "a boolean": _only(bool),
    "a whole number": _only(int),
    "a number": _only(int, float),
    "a date and time": _date_and_time,
    "a date": _date,
    "a UUID": lambda value: uuid.UUID(_only(str)(value)),
    "a text": _only(str),
}
