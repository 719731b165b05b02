"""What the columns of a database hold, from the types that the database names."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from sqlalchemy import types
from sqlalchemy.types import TypeEngine

BOOLEAN: Final = "a boolean"
WHOLE: Final = "a whole number"
NUMBER: Final = "a number"
FLOAT: Final = "a number of 64 bits"
SINGLE: Final = "a number of 32 bits"
MONEY: Final = "an amount of money"
TIME: Final = "a date and time"
DATE: Final = "a date"
UUID: Final = "a UUID"
JSON: Final = "JSON"
TEXT: Final = "a text"
PADDED: Final = "a text without a blank at its end"
LIST: Final = "a list"
OTHER: Final = "a text that its type keeps"
ANY: Final = "a single value"
NOTHING: Final = "no value of a business object"
"""The families of types: words for their values."""


class ColumnType(NamedTuple):
    """What a column holds.

    Args:
        name: of the type, as the database writes it.
        family: a constant of this module.
        size: characters of a text, digits of a number, or bits of a whole number. None = unlimited.
        scale: places after the point, which may be negative, or digits after the second. None = unlimited.
        has_zone: whether a time has a zone.
        item: what an element of a list is.
    """

    name: str
    family: str
    size: int | None = None
    scale: int | None = None
    has_zone: bool = False
    item: ColumnType | None = None


_POSTGRESQL: Final[dict[str, tuple[str, int | None]]] = {
    "boolean": (BOOLEAN, None),
    "smallint": (WHOLE, 16),
    "integer": (WHOLE, 32),
    "bigint": (WHOLE, 64),
    "numeric": (NUMBER, None),
    "real": (SINGLE, None),
    "double precision": (FLOAT, None),
    "money": (MONEY, None),
    "timestamp without time zone": (TIME, None),
    "timestamp with time zone": (TIME, None),
    "date": (DATE, None),
    "uuid": (UUID, None),
    "json": (JSON, None),
    "jsonb": (JSON, None),
    "bytea": (NOTHING, None),
    "text": (TEXT, None),
    "citext": (TEXT, None),
    "character varying": (TEXT, None),
    "character": (PADDED, None),
    "bpchar": (PADDED, None),
}
"""The family and the size of a type without limits in its name."""
_LIMITS: Final = re.compile(r"\((-?[0-9]+)(?:,(-?[0-9]+))?\)")


def of_postgresql(name: str, base: str) -> ColumnType:
    """Returns what a column of PostgreSQL holds.

    Args:
        name: of its type, as ``format_type`` writes it.
        base: the same, of the type that a domain is made of.
    """
    shown = name if name == base else f"{name} ({base})"
    if base.endswith("[]"):
        return ColumnType(shown, LIST, item=of_postgresql(base[:-2], base[:-2]))
    limits = _LIMITS.search(base)
    family, size = _POSTGRESQL.get(_LIMITS.sub("", base), (OTHER, None))
    if limits is None:
        return ColumnType(shown, family, size, has_zone=base.endswith("with time zone"))
    first, second = int(limits[1]), int(limits[2] or 0)
    if family == TIME:
        return ColumnType(shown, family, scale=first, has_zone=base.endswith("with time zone"))
    return ColumnType(shown, family, first, second if family == NUMBER else None)


_FAMILIES: Final[tuple[tuple[type[TypeEngine[Any]], str], ...]] = (
    (types.Boolean, BOOLEAN),
    (types.Integer, WHOLE),
    (types.Float, FLOAT),
    (types.Numeric, NUMBER),
    (types.DateTime, TIME),
    (types.Date, DATE),
    (types.Uuid, UUID),
    (types.JSON, JSON),
    (types.LargeBinary, NOTHING),
    (types.CHAR, PADDED),
    (types.String, TEXT),
)
"""The types of SQLAlchemy, subclasses first."""


def of_sqlalchemy(kind: TypeEngine[Any], dialect: str) -> ColumnType:
    """Returns what a column of another database holds.

    Args:
        dialect: the name that SQLAlchemy gives the database.
    """
    name = str(kind)
    family = next((family for one, family in _FAMILIES if isinstance(kind, one)), NOTHING)
    if dialect == "sqlite":  # which knows no limits of texts, and fills none up
        if isinstance(kind, types.NullType):
            return ColumnType("a column without a type", ANY)
        family = TEXT if family == PADDED else family
    if isinstance(kind, types.Numeric):
        return ColumnType(name, family, kind.precision, kind.scale)
    if family == WHOLE:
        is_small = isinstance(kind, types.SmallInteger) and dialect != "sqlite"
        is_big = isinstance(kind, types.BigInteger) or dialect == "sqlite"
        return ColumnType(name, family, 16 if is_small else 64 if is_big else 32)
    size = getattr(kind, "length", None) if family in (TEXT, PADDED) and dialect != "sqlite" else None
    zone, scale = bool(getattr(kind, "timezone", False)), getattr(kind, "precision", None)
    return ColumnType(name, family, size, scale if family == TIME else None, zone)
