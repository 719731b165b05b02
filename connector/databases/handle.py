"""The transaction of an event, as a business process sees it (``event.transaction``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from sqlalchemy import Connection, Engine, event

from connector.errors import ConnectorError

_ENDING: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:COMMIT|END|ABORT|BEGIN|START\s+TRANSACTION|PREPARE\s+TRANSACTION"
    r"|ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b))\b",
    re.IGNORECASE | re.DOTALL,
)
_REFUSED: Final = frozenset(
    ("begin", "close", "commit", "rollback", "executescript", "set_autocommit", "set_isolation_level",
     "tpc_begin", "tpc_commit", "tpc_prepare", "tpc_rollback")
)  # fmt: skip
_GUARDED: Final = "connector_guarded"
"""Option of a connection whose transaction the connector ends."""
_FIXED: Final = frozenset(("autocommit", "isolation_level"))


class TransactionEndRefused(ConnectorError):
    """A business process tried to end the transaction of its event. The connector ends the transaction."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"event.transaction: {what} is refused, because the connector ends the transaction: return to "
            "commit, or raise to roll back"
        )


def check_statement(statement: object) -> None:
    """Refuses a statement that begins or ends a transaction. Savepoints are allowed.

    Raises:
        TransactionEndRefused: the statement is refused.
    """
    text = statement.decode("utf-8", "replace") if isinstance(statement, bytes) else statement
    if isinstance(text, str) and _ENDING.match(text):
        raise TransactionEndRefused(" ".join(text.split())[:40])


class ProcessConnection(Connection):
    """A ``Connection`` of SQLAlchemy for a business process, on a connection that belongs to the connector.

    The events of the engine refuse what ends the transaction (:func:`refuse_ends`).
    """

    @classmethod
    def on(cls, connection: Connection) -> Connection:
        """Returns a connection for a process, on the driver's connection of another one."""
        made = cls(connection.engine, connection=connection.connection)
        return made.execution_options(**{_GUARDED: True})

    def commit(self) -> None:
        raise TransactionEndRefused("sqlalchemy.commit()")

    def rollback(self) -> None:
        raise TransactionEndRefused("sqlalchemy.rollback()")

    def close(self) -> None:
        raise TransactionEndRefused("sqlalchemy.close()")


def refuse_ends(engine: Engine) -> None:
    """Makes an engine refuse what ends the transaction of a :class:`ProcessConnection`."""

    def refuse(what: str) -> Callable[[Connection], None]:
        def check(connection: Connection) -> None:
            if connection.get_execution_options().get(_GUARDED):
                raise TransactionEndRefused(f"sqlalchemy.{what}")

        return check

    def check(connection: Connection, cursor: object, statement: str, *_: object) -> None:
        if connection.get_execution_options().get(_GUARDED):
            check_statement(statement)

    event.listen(engine, "commit", refuse("commit()"))
    event.listen(engine, "rollback", refuse("rollback()"))
    event.listen(engine, "before_cursor_execute", check)


class EventTransaction:
    """An open DB-API connection of a database, in the transaction that the connector ends.

    All attributes of the driver's connection are there. Those that end the transaction raise
    :class:`TransactionEndRefused`.

    Args:
        connection: of SQLAlchemy, in the transaction.
    """

    __slots__ = ("_before", "_connection", "_driver", "_for_process")

    def __init__(self, connection: Connection) -> None:
        object.__setattr__(self, "_before", {})
        object.__setattr__(self, "_connection", connection)
        object.__setattr__(self, "_driver", connection.connection.dbapi_connection)
        object.__setattr__(self, "_for_process", None)

    @property
    def sqlalchemy(self) -> Connection:
        """The same transaction as a ``Connection`` of SQLAlchemy."""
        if self._for_process is None:
            object.__setattr__(self, "_for_process", ProcessConnection.on(self._connection))
        connection: Connection = self._for_process
        return connection

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        """Returns a cursor of the driver."""
        return _Cursor(self, self._driver.cursor(*arguments, **options))

    def execute(self, statement: Any, *arguments: Any, **options: Any) -> Any:
        """Runs a statement and returns a cursor, where the driver's connection has this method."""
        check_statement(statement)
        return _Cursor(self, self._driver.execute(statement, *arguments, **options))

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED:
            raise TransactionEndRefused(f"{name}()")
        return getattr(self._driver, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED:
            raise TransactionEndRefused(f"setting {name}")
        self._before.setdefault(name, getattr(self._driver, name, None))
        setattr(self._driver, name, value)

    def restore_settings(self) -> None:
        """Undoes what the process has set on the driver's connection, which the next event gets."""
        for name, value in self._before.items():
            setattr(self._driver, name, value)

    def __enter__(self) -> EventTransaction:
        raise TransactionEndRefused("`with event.transaction`")

    def __exit__(self, *_: object) -> None:
        raise TransactionEndRefused("`with event.transaction`")

    def __repr__(self) -> str:
        return "<the transaction of an event>"  # the driver's text may have the password


class _Cursor:
    """A cursor of the driver. Statements that end the transaction are refused."""

    __slots__ = ("_cursor", "connection")

    def __init__(self, connection: EventTransaction, cursor: Any) -> None:
        object.__setattr__(self, "connection", connection)
        object.__setattr__(self, "_cursor", cursor)

    def execute(self, statement: Any, *arguments: Any, **options: Any) -> _Cursor:
        check_statement(statement)
        self._cursor.execute(statement, *arguments, **options)
        return self

    def executemany(self, statement: Any, *arguments: Any, **options: Any) -> _Cursor:
        check_statement(statement)
        self._cursor.executemany(statement, *arguments, **options)
        return self

    def __getattr__(self, name: str) -> Any:
        if name in _REFUSED and name != "close":
            raise TransactionEndRefused(f"{name}()")
        return getattr(self._cursor, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._cursor, name, value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor)

    def __enter__(self) -> _Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self._cursor.close()
