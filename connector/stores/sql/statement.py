"""Statements that run for each message or each batch.

SQLAlchemy writes the SQL once, and the driver executes the SQL. The layers of SQLAlchemy around an execution
take longer than a small statement takes in the database.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import JSON, Connection
from sqlalchemy.dialects.postgresql.psycopg import dialect as postgresql
from sqlalchemy.dialects.sqlite import dialect as sqlite
from sqlalchemy.exc import DBAPIError

from connector.lazy_property import lazy_property
from connector.stores.sql.json_columns import read_json

_WRITERS: Final[dict[str, Any]] = {
    "sqlite": sqlite(paramstyle="named"),
    "postgresql": postgresql(),  # type: ignore[no-untyped-call]
}


class Statement:
    """One statement for all connections. The parameters are texts, numbers, bytes, and lists of these.

    A parameter for a JSON column is a text. Rows have the names of their columns as attributes.
    """

    def __init__(self, dialect: str, element: Any) -> None:
        self._dialect = dialect
        self._element = element

    @lazy_property
    def _compiled(self) -> tuple[str, dict[str, Any]]:
        """The SQL, and the constant parameters."""
        compiled = self._element.compile(dialect=_WRITERS[self._dialect])
        binds = compiled.bind_names.items()
        return str(compiled), {name: one.effective_value for one, name in binds if not one.required}

    @lazy_property
    def _make(self) -> Callable[[Sequence[Any]], Any]:
        """Makes a row from a row of the driver."""
        columns = list(self._element.exported_columns)
        kind: Any = namedtuple("Row", [one.key for one in columns])  # type: ignore[misc]
        make: Callable[[Sequence[Any]], Any] = kind._make
        is_json = [index for index, one in enumerate(columns) if isinstance(one.type, JSON)]
        if self._dialect != "sqlite" or not is_json:
            return make

        def read(row: Sequence[Any]) -> Any:
            values = list(row)
            for index in is_json:
                if values[index] is not None:
                    values[index] = read_json(values[index])
            return make(values)

        return read

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Executes the statement and returns all rows.

        Raises:
            SQLAlchemyError: as from :meth:`sqlalchemy.Connection.execute`.
        """
        text, fixed = self._compiled
        with driver_of(connection) as driver:
            found = driver.execute(text, {**fixed, **values}).fetchall()
        return list(map(self._make, found))

    def run(self, connection: Connection, values: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Executes a statement that returns nothing, once for each of ``values`` if these are several.

        Raises:
            SQLAlchemyError: as from :meth:`sqlalchemy.Connection.execute`.
        """
        text, fixed = self._compiled
        with driver_of(connection) as driver:
            if isinstance(values, Mapping):
                driver.execute(text, {**fixed, **values})
            else:
                driver.cursor().executemany(text, [{**fixed, **one} for one in values])


class driver_of:
    """The connection of the driver, with the errors of SQLAlchemy. A lost connection is not used again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver: Any = connection.connection.driver_connection

    def __enter__(self) -> Any:
        return self._driver

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        dialect = self._connection.dialect
        errors = dialect.loaded_dbapi.Error
        if isinstance(error, errors):
            is_lost = dialect.is_disconnect(error, self._driver, None)
            if is_lost:
                self._connection.invalidate(error)
            raise DBAPIError.instance(
                None,
                None,
                error,
                errors,
                hide_parameters=True,
                connection_invalidated=is_lost,
                dialect=dialect,
            ) from error
