"""A table as it is now: its columns, and values for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, Connection, MetaData, Table, cast, text
from sqlalchemy.exc import DBAPIError, NoSuchTableError
from sqlalchemy.sql.elements import BindParameter, ColumnElement
from sqlalchemy.types import UserDefinedType

from connector.businessobjects.types import describe
from connector.databases.column_types import LIST, MONEY, OTHER, ColumnType, of_postgresql, of_sqlalchemy
from connector.databases.values import Unfit, converter

_POSTGRESQL: Final = text("""
    WITH RECURSIVE found AS (
        SELECT attnum, attname, format_type(atttypid, atttypmod) AS name,
            atttypid AS type, atttypmod AS modifier, 0 AS depth,
            attnotnull AND NOT atthasdef AND attidentity = '' AS is_needed
        FROM pg_catalog.pg_attribute JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
        WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped
            AND relkind IN ('r', 'p', 'v', 'f')
        UNION ALL
        SELECT attnum, attname, name, typbasetype, typtypmod, depth + 1,
            is_needed AND typdefault IS NULL
        FROM found JOIN pg_catalog.pg_type ON pg_type.oid = type WHERE typtype = 'd')
    SELECT DISTINCT ON (attnum) attname, name, format_type(type, modifier), is_needed
    FROM found ORDER BY attnum, depth DESC""")
"""The columns of a table of PostgreSQL. The type of a domain is the last one that the domains are made of."""

_VERSIONS: Final = """
    SELECT string_agg(concat(attrelid, ':', xmin), ',' ORDER BY attrelid, attnum)
    FROM pg_catalog.pg_attribute WHERE attnum > 0
        AND attrelid = ANY (ARRAY(SELECT to_regclass(name)::oid FROM unnest(%s::text[]) AS name))"""
"""Each change of a column writes its row of the catalogue anew."""

_KEPT: Final = {
    OTHER: "concat(CAST(:value AS {0}))",
    LIST: "concat(CAST(:value AS {0}))",
    MONEY: "CAST(CAST(CAST(:value AS numeric) AS {0}) AS numeric)",
}
"""What a type of PostgreSQL makes of a value. A function sees the text that clients read. A cast may not."""
_KEPT_LIST: Final = "CAST(CAST(CAST(:value AS text[]) AS {0}) AS text[])"


def version_of(connection: Connection, names: Iterable[str]) -> object:
    """Returns what differs after columns of tables have changed. None = the database does not tell.

    The columns of PostgreSQL do not change from the first row that a transaction writes until its end.
    """
    if connection.dialect.name == "postgresql":
        quoted = [_quoted(connection, name) for name in names]
        return connection.exec_driver_sql(_VERSIONS, (quoted,)).scalar()
    if connection.dialect.name == "sqlite":
        return connection.exec_driver_sql("PRAGMA schema_version").scalar()
    return None


def _quoted(connection: Connection, name: str) -> str:
    quote = connection.dialect.identifier_preparer.quote
    return ".".join(quote(part) for part in name.rpartition(".") if part not in ("", "."))


class _Written(UserDefinedType[Any]):
    """A type of PostgreSQL by its name. A parameter is cast, so that the server knows what a text means."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: object) -> str:
        return self.name

    def bind_expression(self, bindvalue: BindParameter[Any]) -> ColumnElement[Any]:
        return cast(bindvalue, self)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Args:
        is_needed: whether a row without a value is refused.
        convert: as :func:`connector.databases.values.converter` returns it.
        written: the name of the type in SQL. Empty = the type is not PostgreSQL's.
    """

    name: str
    type: ColumnType
    is_needed: bool
    convert: Callable[[Any], Any]
    written: str = ""

    def hold(self, connection: Connection, value: Any) -> Any:
        """Returns what the driver gets for a value that the column holds whole.

        Raises:
            Unfit: the column would lose or change a part of the value.
        """
        converted = self.convert(value)
        kept = _KEPT.get(self.type.family)
        if converted is None or kept is None or not self.written:
            return converted
        if type(converted) is list:
            assert self.type.item is not None
            if self.type.item.family != OTHER:
                return converted  # the values were checked one by one
            kept = _KEPT_LIST
        try:
            query = text(f"SELECT {kept.format(self.written)}")
            found = connection.execute(query, {"value": converted}).scalar()
        except DBAPIError as error:
            reason = str(error.orig).partition("\n")[0]
            raise Unfit(f"found {describe(value)}, expected a value of {self.type.name}: {reason}") from error
        if found != converted:
            other = "another list" if type(found) is list else describe(found)
            raise Unfit(f"found {describe(value)}, which {self.type.name} would keep as {other}")
        return converted


class TableColumns:
    """The columns of a table as they were read.

    Args:
        name: TABLE or SCHEMA.TABLE.

    Raises:
        NoSuchTableError: there is no such table.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._dialect = connection.dialect.name
        schema, _, table = name.rpartition(".")
        if self._dialect == "postgresql":
            found = connection.execute(_POSTGRESQL, {"name": _quoted(connection, name)})
            self.columns = [self._of_row(*row) for row in found]
            if not self.columns:
                raise NoSuchTableError(name)
            made = [Column(one.name, _Written(one.written)) for one in self.columns]
            self.table = Table(table, MetaData(), *made, schema=schema or None)
        else:
            self.table = Table(
                table, MetaData(), schema=schema or None, autoload_with=connection, resolve_fks=False
            )
            self.columns = [self._of_column(column) for column in self.table.columns]

    def _of_row(self, name: str, written: str, base: str, is_needed: bool) -> TableColumn:
        kind = of_postgresql(written, base)
        return TableColumn(name, kind, is_needed, converter(kind, self._dialect), written)

    def _of_column(self, column: Column[Any]) -> TableColumn:
        kind = of_sqlalchemy(column.type, self._dialect)
        is_filled = column.nullable or column is self.table.autoincrement_column
        is_filled = is_filled or bool(column.server_default or column.identity or column.computed)
        return TableColumn(column.name, kind, not is_filled, converter(kind, self._dialect))

    def find(self, name: str) -> TableColumn | None:
        """Returns a column. Upper and lower case count only if two columns differ in nothing else."""
        folded = [one for one in self.columns if one.name.casefold() == name.casefold()]
        exact = [one for one in folded if one.name == name]
        return exact[0] if exact else folded[0] if len(folded) == 1 else None
