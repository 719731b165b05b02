"""The SQL that makes a missing table, for an administrator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Column, MetaData, Table, types
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import TypeEngine

from connector.businessobjects.definition import Attribute, Definition
from connector.businessobjects.types import DECIMAL
from connector.databases.outcomes import outcome
from connector.databases.values import decimal_type
from connector.sinks.table.mapping import TableMapping, WrongExpression, default_columns, owner_of, source_of

_TYPES: Final[Mapping[str, Callable[[], TypeEngine[Any]]]] = {
    "Boolean": types.Boolean,
    "Integer": types.Integer,
    "Float": types.Float,
    "Double": types.Double,
}
"""From the type of an attribute to the type of a column. All others are texts: a Date may have a time."""


def create_statement(
    dialect: Dialect, mapping: TableMapping, definition: Definition, around: Sequence[Definition] = ()
) -> str:
    """Returns the SQL that makes the table of a business object, on one line.

    The key attributes of a table that is not a child's are its primary key.

    Args:
        around: of the objects around, the containing one first, for the table of a child.
    """
    pairs = mapping.columns or [(name, name) for name in default_columns(definition)]
    columns = {name: _column(name, text, definition, dialect, is_key=not around) for name, text in pairs}
    for name, text in mapping.key if around else ():
        owner = around[owner_of(text, around)]
        columns[name] = _column(name, text, owner, dialect, is_key=False, is_needed=True)
    schema, _, name = mapping.name.rpartition(".")
    table = Table(name, MetaData(), *columns.values(), schema=schema or None)
    lines = [line.strip() for line in str(CreateTable(table).compile(dialect=dialect)).split("\n")]
    return " ".join(lines).replace("( ", "(").replace(" )", ")").strip() + ";"


def tables_there(names: Iterable[str]) -> str:
    """Returns the tables of a database, in words for an error."""
    found = sorted(name for name in names if name != outcome.name)
    shown = ", ".join(found[:20]) + (", ..." if len(found) > 20 else "")
    return f"there are {shown}" if found else "there are no tables"


def _column(
    name: str, text: str, definition: Definition, dialect: Dialect, *, is_key: bool, is_needed: bool = False
) -> Column[Any]:
    try:
        attribute = source_of(text, definition).attribute
    except WrongExpression:
        attribute = None
    key = is_key and attribute is not None and attribute.is_key
    is_nullable = not (key or is_needed or (attribute is not None and attribute.is_required))
    kind = types.Text() if attribute is None else _type(attribute, dialect)
    return Column(name, kind, primary_key=key, nullable=is_nullable, autoincrement=False)


def _type(attribute: Attribute, dialect: Dialect) -> TypeEngine[Any]:
    if attribute.type == DECIMAL:
        return decimal_type(attribute.digits, attribute.scale, dialect.name)
    make = _TYPES.get(attribute.type)
    if make is not None:
        return make()
    return types.String(attribute.max_length) if attribute.max_length else types.Text()
