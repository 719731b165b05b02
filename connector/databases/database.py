"""A database with business data: its connections, and transactions with the outcomes of events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, inspect
from sqlalchemy.exc import DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from connector import faults, own_files
from connector.databases import outcomes
from connector.databases.handle import EventTransaction, TransactionEndRefused, refuse_ends
from connector.databases.outcomes import OutcomeRow
from connector.databases.settings import DatabaseSettings
from connector.databases.urls import network_options, reason_of
from connector.errors import ConnectorError, DatabaseProblem, NotActive, ObjectRefused, TemporaryFailure
from connector.text.json_text import to_json_text
from connector.tracebacks import message_of

_NETWORK_SECONDS: Final = 10.0
_BUSY_SECONDS: Final = 60.0
"""Seconds that a transaction waits for another writer of a SQLite file."""
_CONFLICTS: Final = ("40001", "40P01", "55P03")
"""States of SQL: a serialization failure, a deadlock, a lock that was not granted in time."""
_IN_TRANSACTION: Final = 2
_IN_ERROR: Final = 3
"""``transaction_status`` of psycopg."""


class DatabaseUnreachable(NotActive):
    """A database cannot be reached, or its connection was lost. The event is given back, and runs again."""


class TransactionConflict(TemporaryFailure):
    """A serialization failure or a deadlock. Nothing was committed, and the transaction can be repeated."""


class Database:
    """The connections of one process to a database. The first use connects. For one thread.

    Raises:
        DatabaseProblem: the driver of the database is not installed.
    """

    def __init__(self, settings: DatabaseSettings) -> None:
        self.name = settings.name
        self.title = settings.title
        url = settings.parsed
        self._file = url.database if url.get_backend_name() == "sqlite" else None
        backend = url.get_backend_name()
        options: dict[str, Any] = {}
        if backend == "sqlite":
            options = {"timeout": _BUSY_SECONDS, "check_same_thread": False}
        elif backend == "postgresql":
            options = network_options(url, _NETWORK_SECONDS)
        try:
            self.engine: Engine = create_engine(
                url,
                pool_size=1,
                max_overflow=-1,
                hide_parameters=True,
                connect_args=options,
                json_serializer=to_json_text,
            )
        except (ImportError, NoSuchModuleError, SQLAlchemyError) as error:
            text = f"databases.{self.name}: the driver cannot be used: {message_of(error)}"
            raise DatabaseProblem(text) from None
        if backend == "sqlite":
            event.listen(self.engine, "connect", _leave_transactions_to_us)
            event.listen(self.engine, "begin", _begin_immediately)
        refuse_ends(self.engine)
        self._is_prepared = False

    def close(self) -> None:
        """Closes the connections. Repeatable."""
        self.engine.dispose()

    def prepare(self, *, makes: bool = True) -> None:
        """Makes the table of outcomes if there is none.

        Args:
            makes: False = only tries whether the table can be made. A database that cannot undo that keeps
                the table.

        Raises:
            DatabaseUnreachable: the database cannot be reached.
            DatabaseProblem: the table is missing and cannot be made. The text has the SQL.
        """
        if self._is_prepared:
            return
        with self.connect() as connection:
            if not outcomes.is_complete(connection):
                try:
                    outcomes.make(connection)
                    if makes:
                        connection.commit()
                    else:
                        connection.rollback()
                except SQLAlchemyError as error:
                    connection.rollback()
                    if self.is_lost(error, connection):
                        raise self.unreachable(error) from None
                    if not outcomes.is_complete(connection):
                        has_table = has_outcomes(connection)
                        raise self.cannot_make(error, has_table=has_table) from None
        self._is_prepared = makes

    def cannot_make(self, error: SQLAlchemyError, *, has_table: bool = False) -> DatabaseProblem:
        """Returns the error for a table of outcomes that cannot be made, or its column ``sent``."""
        dialect = self.engine.dialect
        statement = outcomes.column_statement(dialect) if has_table else outcomes.make_statement(dialect)
        what = "column sent of the table connector_outcome" if has_table else "table connector_outcome"
        return DatabaseProblem(
            f"the {what} is missing in {self.title} and cannot be made "
            f" ({reason_of(error)}); let an administrator run:\n{statement};"
        )

    def connect(self) -> Connection:
        """Returns a connection.

        Raises:
            DatabaseUnreachable: the database cannot be reached.
        """
        try:
            if self._file and not os.path.exists(self._file):
                own_files.make_file(self._file)
            return self.engine.connect()
        except (OSError, SQLAlchemyError) as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: BaseException) -> DatabaseUnreachable:
        """Returns the error for a database that cannot be reached or whose connection was lost."""
        text = _text(error)
        return DatabaseUnreachable(f"the database {self.name} ({self.title}) cannot be used: {text}")

    def run(
        self, row: OutcomeRow, fence: Callable[[], None], work: Callable[[EventTransaction], object]
    ) -> object:
        """Runs ``work`` in a transaction that also inserts ``row``. Does nothing if the row is there.

        Args:
            fence: raises an exception if this worker may not run the event any more. Called when the row is
                inserted. From then on, any other worker with the event waits for this transaction.
            work: gets the transaction. Any exception rolls back.

        Returns:
            the value of ``work``. None if the row was there.

        Raises:
            DatabaseUnreachable: the connection was lost. The transaction may have been committed.
            TransactionConflict: nothing was committed, and a repetition may work.
            ObjectRefused: the database refuses the commit, for example for a deferred constraint.
            Exception: of ``fence`` or ``work``. Nothing was committed.
        """
        self.prepare()
        with self.connect() as connection:
            if not self._insert(connection, row):
                return None
            is_ours = has_worked = False
            transaction = EventTransaction(connection)
            try:
                fence()
                is_ours = True
                try:
                    returned = work(transaction)
                finally:
                    transaction.restore_settings()
                if row.sent:
                    row.keep_sent(connection)
                self._check_open(connection)
                faults.point("transaction.returned")
                has_worked = True
                connection.commit()
            except BaseException as error:
                is_lost = self._roll_back(connection, error)
                if is_ours and is_lost:
                    raise self.unreachable(error) from error
                if is_conflict(error):
                    raise TransactionConflict(f"the database {self.name}: {_text(error)}") from error
                if has_worked and isinstance(error, SQLAlchemyError):
                    refusal = f"the database {self.name} refuses the commit: {reason_of(error)}"
                    raise ObjectRefused(refusal) from error
                raise
            faults.point("transaction.committed")
            return returned

    def _insert(self, connection: Connection, row: OutcomeRow) -> bool:
        """Begins a transaction with the row. False = another transaction has committed the row.

        An open connection may have been lost while it was idle. Then a new connection is used.
        """
        for attempt in (1, 2):
            try:
                row.insert(connection)
                return True
            except IntegrityError:
                connection.rollback()
                with connection.begin():
                    row.move(connection)
                return False
            except SQLAlchemyError as error:
                is_lost = self._roll_back(connection, error)
                if is_conflict(error):
                    raise TransactionConflict(f"the database {self.name}: {_text(error)}") from error
                if not is_lost or attempt == 2:
                    raise self.unreachable(error) from None
        raise AssertionError

    def _roll_back(self, connection: Connection, error: BaseException) -> bool:
        """Rolls back. Returns whether the connection was lost."""
        is_lost = self.is_lost(error, connection)
        try:
            connection.rollback()
        except SQLAlchemyError:
            is_lost = True
        if is_lost and not connection.invalidated:
            connection.invalidate()
        return is_lost

    def is_lost(self, error: BaseException, connection: Connection) -> bool:
        """Whether an error, or one of its causes, says that the connection was lost."""
        if connection.invalidated:
            return True
        for one in _causes(error):
            if isinstance(one, DBAPIError) and one.connection_invalidated:
                return True
            driver = self.engine.dialect.dbapi
            if driver is not None and isinstance(one, driver.Error):
                return bool(
                    self.engine.dialect.is_disconnect(one, connection.connection.dbapi_connection, None)
                )
        return False

    @staticmethod
    def _check_open(connection: Connection) -> None:
        """Checks that the transaction is still the one with the row, and can be committed.

        PostgreSQL answers the COMMIT of a failed transaction with a rollback, which is no error.
        """
        driver: Any = connection.connection.dbapi_connection
        info = getattr(driver, "info", None)
        status = getattr(info, "transaction_status", None)
        if status is None:
            if getattr(driver, "in_transaction", True):
                return
            status = 0
        if status == _IN_ERROR:
            raise ConnectorError(
                "a statement of event.transaction has failed, and the process has returned all the same: let "
                "the exception pass, or use a savepoint"
            )
        if status != _IN_TRANSACTION:
            raise TransactionEndRefused("the end of the transaction by the process")


def has_outcomes(connection: Connection) -> bool:
    return inspect(connection).has_table(outcomes.outcome.name)


def is_conflict(error: BaseException) -> bool:
    """Whether a transaction has failed because of another transaction, and can be repeated."""
    for one in _causes(error):
        state = getattr(one, "sqlstate", None) or getattr(one, "pgcode", None)
        if state in _CONFLICTS:
            return True
        if type(one).__name__ == "OperationalError" and "database is locked" in str(one):
            return True
    return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yields an error, its causes, and the errors of the driver in them."""
    found: BaseException | None = error
    while found is not None:
        yield found
        if isinstance(found, DBAPIError) and found.orig is not None:
            yield found.orig
        found = found.__cause__


def _text(error: BaseException) -> str:
    return reason_of(error) if isinstance(error, SQLAlchemyError) else message_of(error)


def _leave_transactions_to_us(connection: Any, record: object) -> None:
    connection.isolation_level = None  # the driver begins no transactions of its own


def _begin_immediately(connection: Connection) -> None:
    """Takes the lock for writing at once: a later upgrade may fail, and cannot wait."""
    driver: Any = connection.connection.dbapi_connection
    if not driver.in_transaction:  # a process has a further connection to the same transaction
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # errors of the driver itself would get past SQLAlchemy
