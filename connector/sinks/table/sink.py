"""The sink ``table``: writes business objects into tables, in the transaction of the event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from connector.businessobjects.definition import Definitions
from connector.businessobjects.instance import BusinessObject
from connector.errors import ObjectRefused
from connector.sinks.contract import Event, SinkContext, TransactionalSink
from connector.sinks.table.mapping import TableMapping

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from connector.sinks.table.rows import OnConflict, Operation, TableRows

OPERATIONS: Final[dict[str, Operation]] = {"Create": "insert", "Update": "update", "Delete": "delete"}
"""The operations of the verbs that need no ``operation``."""
_STATES: Final = ("0A", "22", "42")
"""Classes of SQLSTATE: a feature that is not supported (a cached plan), data, names and types."""
_NOT_NULL: Final = "23502"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """Recipe for a :class:`TableSink`.

    Args:
        database: a key of ``databases:``.
        on_conflict: what an insert does when the row is there.
        operation: for every verb. None = by the verb (:data:`OPERATIONS`).
    """

    database: str
    object: str
    mapping: TableMapping
    on_conflict: OnConflict = "error"
    operation: Operation | None = None

    def open(self, context: SinkContext) -> TableSink:
        """Makes the sink. The first delivery reads the table."""
        return TableSink(self, context.definitions)

    def rows(self, connection: Connection, definitions: Definitions) -> TableRows:
        """Reads the table, and checks that the table fits.

        Raises:
            WrongTable: the text has all mistakes.
        """
        from connector.sinks.table.rows import TableRows

        return TableRows(connection, self.mapping, definitions[self.object], definitions)


class TableSink(TransactionalSink):
    def __init__(self, spec: TableSpec, definitions: Definitions) -> None:
        self.database = spec.database
        self._spec = spec
        self._definitions = definitions
        self._rows: TableRows | None = None

    def deliver(self, bo: BusinessObject, event: Event) -> None:
        """Writes the object.

        Raises:
            ObjectRefused: the table or the database refuses the object.
        """
        from sqlalchemy.exc import SQLAlchemyError

        from connector.databases.urls import reason_of
        from connector.sinks.table.rows import RowRefused

        operation = self._spec.operation or OPERATIONS.get(bo.verb or "")
        if operation is None:
            raise ObjectRefused(f"the verb {bo.verb} has no operation on a table: set operation")
        connection = event.transaction.sqlalchemy
        is_known, rows = self._rows is not None, self._rows
        self._rows = None  # a failure reads the table anew
        try:
            rows = rows or self._spec.rows(connection, self._definitions)
            rows.write(connection, bo, operation, self._spec.on_conflict)
            has_changed = rows.have_changed(connection)
        except (SQLAlchemyError, ObjectRefused) as error:
            cause = error.__cause__ if isinstance(error, RowRefused) else error
            if is_known and _is_about_columns(cause):
                raise self._again() from cause
            if isinstance(error, ObjectRefused):
                raise
            raise ObjectRefused(f"the table {self._spec.mapping.name}: {reason_of(error)}") from error
        if has_changed:
            raise self._again()
        self._rows = rows

    def _again(self) -> Exception:
        """Returns the error that lets the event run again, with columns that are read for it."""
        from connector.databases.database import TransactionConflict

        return TransactionConflict(f"the columns of {self._spec.mapping.name} may have changed")


def _is_about_columns(error: BaseException | None) -> bool:
    """Whether an error may come from columns that have changed since they were read."""
    state = getattr(getattr(error, "orig", None), "sqlstate", None)
    return state is None or state[:2] in _STATES or state == _NOT_NULL
