"""The table ``connector_lot``: the last lot of each sequence whose rows a database holds.

The number is written in the transaction with the rows. So a lot that is written again is found there, and its
rows are not written twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Column, Connection, MetaData, Table, insert, inspect, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import BigInteger, String

from connector.databases.database import Database
from connector.databases.settings import DatabaseSettings
from connector.databases.urls import reason_of
from connector.errors import DatabaseProblem

_CHUNK: Final = 1000
"""Rows of one statement."""

_metadata: Final = MetaData()
lot: Final = Table(
    "connector_lot",
    _metadata,
    Column("app_id", String(500), primary_key=True),
    Column("number", BigInteger, nullable=False),
)


class LotRows:
    """Writes the rows of lots to a table. The first use connects. For one thread.

    Args:
        table: TABLE or SCHEMA.TABLE.

    Raises:
        DatabaseProblem: the driver of the database is not installed.
    """

    def __init__(self, settings: DatabaseSettings, table: str) -> None:
        self._database = Database(settings)
        self._schema, _, self._name = table.rpartition(".")
        self._table: Table | None = None

    def last_number(self, app_id: str) -> int:
        """Returns the number of the last lot of a sequence. 0 = the database holds none.

        Raises:
            DatabaseUnreachable: the database cannot be reached.
            DatabaseProblem: the table of lots is missing and cannot be made. The text has the SQL.
        """
        with self._database.connect() as connection:
            self._make(connection)
            return self._number(connection, app_id)

    def is_missing(self, app_id: str, number: int) -> bool:
        """Returns whether the database does not hold a lot, and could take it. Changes nothing.

        Raises:
            DatabaseUnreachable, DatabaseProblem: as :meth:`write`.
            Exception: nothing can be written.
        """
        with self._database.connect() as connection:
            self._table = self._read_table(connection)
            last = self._number(connection, app_id)
            self._insert(connection, (), app_id, max(number, last + 1))
            connection.rollback()
        return last < number

    def write(self, rows: Iterable[Mapping[str, Any]], app_id: str, number: int) -> None:
        """Inserts the rows of a lot, unless the database holds the lot.

        Raises:
            DatabaseUnreachable: the database cannot be reached. The rows may have been written.
            DatabaseProblem: a table is missing.
            Exception: the database refuses a row. Nothing was written.
        """
        with self._database.connect() as connection:
            try:
                self._make(connection)
                self._insert(connection, rows, app_id, number)
                connection.commit()
            except SQLAlchemyError as error:
                is_lost = self._database.is_lost(error, connection)
                connection.invalidate() if is_lost else connection.rollback()
                if is_lost:
                    raise self._database.unreachable(error) from error
                raise

    def _insert(
        self, connection: Connection, rows: Iterable[Mapping[str, Any]], app_id: str, number: int
    ) -> None:
        """Inserts rows and their number in the open transaction, the number first.

        A further transaction with the same number waits for this one.
        """
        last = self._number(connection, app_id)
        if last >= number:
            return
        if last:
            connection.execute(update(lot).where(lot.c.app_id == app_id).values(number=number))
        else:
            connection.execute(insert(lot).values(app_id=app_id, number=number))
        if self._table is None:
            self._table = self._read_table(connection)
        remaining = iter(rows)
        while chunk := list(itertools.islice(remaining, _CHUNK)):
            connection.execute(insert(self._table), [dict(one) for one in chunk])

    def _read_table(self, connection: Connection) -> Table:
        if not inspect(connection).has_table(self._name, schema=self._schema or None):
            raise DatabaseProblem(
                f"the database {self._database.name} ({self._database.title}) has no table {self._name}: "
                "make it"
            )
        return Table(self._name, MetaData(), schema=self._schema or None, autoload_with=connection)

    @staticmethod
    def _number(connection: Connection, app_id: str) -> int:
        found = connection.execute(select(lot.c.number).where(lot.c.app_id == app_id)).scalar()
        return int(found or 0)

    def _make(self, connection: Connection) -> None:
        """Makes the table of lots if there is none."""
        if inspect(connection).has_table(lot.name):
            return
        try:
            _metadata.create_all(connection)
            connection.commit()
        except SQLAlchemyError as error:
            connection.rollback()
            if not inspect(connection).has_table(lot.name):
                statement = str(CreateTable(lot).compile(dialect=self._database.engine.dialect)).strip()
                raise DatabaseProblem(
                    f"the table connector_lot is missing in {self._database.title} and cannot be made "
                    f"({reason_of(error)}); let an administrator run:\n{statement};"
                ) from None
