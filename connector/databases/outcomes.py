"""The table ``connector_outcome``: which subscription has committed its business data for which event.

The row of an event is inserted in the transaction with the business data. Its primary key keeps a second run
out: a further transaction waits for the first, and then finds the row.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Table,
    Text,
    and_,
    delete,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import BigInteger, String

from connector.databases.settings import EventKey, digest

KEPT: Final = 7 * 86400.0
"""Age in seconds after which a row that was not removed with its batch is removed."""

_metadata: Final = MetaData()
outcome: Final = Table(
    "connector_outcome",
    _metadata,
    Column("application", String(100), primary_key=True),
    Column("subscription", String(255), primary_key=True),
    Column("event", String(64), primary_key=True),
    Column("message_id", String(255), nullable=False),
    Column("client", String(100), nullable=False),
    Column("batch", BigInteger, nullable=False),
    Column("written", BigInteger, nullable=False),
    Column("sent", Text().with_variant(LONGTEXT(), "mysql", "mariadb"), nullable=True),
)
"""``written`` is a time in milliseconds since 1970. ``sent`` has the messages that the process has sent.

Versions before 0.4 made the table without ``sent``.
"""


class OutcomeRow:
    """The row of one subscription and one event.

    Args:
        subscription: name of the subscription. A long name is replaced by a digest.
    """

    def __init__(self, application: str, subscription: str, key: EventKey) -> None:
        if len(subscription) > 255:
            subscription = digest(subscription)
        self.sent = ""
        """What the process has sent, packed. Empty = nothing."""
        self.is_there = False
        """Whether another transaction has committed the row."""
        self._key = {"application": application, "subscription": subscription, "event": key.event}
        self._values = {"message_id": key.message_id[:255], "client": key.client, "batch": key.batch}

    def insert(self, connection: Connection) -> None:
        """Inserts the row. Waits for another transaction that has inserted the row.

        Raises:
            sqlalchemy.exc.IntegrityError: the row is there.
        """
        values = {**self._key, **self._values, "written": _now()}
        statement, names = _insertion(connection.dialect)
        connection.exec_driver_sql(statement, tuple(values[name] for name in names) if names else values)

    def keep_sent(self, connection: Connection) -> None:
        """Writes what the process has sent into the row, in the transaction that has inserted the row."""
        connection.execute(update(outcome).where(self._where).values(sent=self.sent))

    def move(self, connection: Connection) -> None:
        """Gives an existing row to the batch of this key, which then removes the row. Reads what was sent."""
        values = {"client": self._values["client"], "batch": self._values["batch"], "written": _now()}
        connection.execute(update(outcome).where(self._where).values(values))
        self.is_there = True
        self.sent = connection.execute(select(outcome.c.sent).where(self._where)).scalar() or ""

    @property
    def _where(self) -> ColumnElement[bool]:
        return and_(*(outcome.c[name] == value for name, value in self._key.items()))


def rows_of(connection: Connection, application: str, message_id: str) -> Sequence[Any]:
    """Returns the rows of a message and of its records: event, message_id, subscription, sent."""
    c = outcome.c
    whole = message_id[:255]
    own = (c.message_id == whole) | c.message_id.startswith(f"{whole}#", autoescape=True)
    wanted = select(c.event, c.message_id, c.subscription, c.sent).where((c.application == application) & own)
    return connection.execute(wanted.order_by(c.message_id, c.subscription)).fetchall()


def remove(
    connection: Connection, application: str, client: str, batches: Sequence[int], kept: Collection[str] = ()
) -> int:
    """Removes the rows of settled batches, and returns their number.

    Args:
        connection: with an open transaction.
        client, batches: that have written the rows.
        kept: ids of messages whose rows stay, because their events come again.
    """
    c = outcome.c
    where = (c.client == client) & c.batch.in_(batches) & (c.application == application)
    if kept:
        where &= c.message_id.not_in({one[:255] for one in kept})
    return connection.execute(delete(outcome).where(where)).rowcount


def prune(connection: Connection, application: str) -> int:
    """Removes rows older than :data:`KEPT`, and returns their number."""
    c = outcome.c
    where = (c.application == application) & (c.written < _now() - int(KEPT * 1000))
    return connection.execute(delete(outcome).where(where)).rowcount


def make_statement(dialect: Dialect) -> str:
    """Returns the SQL that makes the table, for an operator."""
    return str(CreateTable(outcome).compile(dialect=dialect)).strip()


def make(connection: Connection) -> None:
    """Makes the table if there is none, and the column ``sent`` that earlier versions did not have."""
    _metadata.create_all(connection)
    if not is_complete(connection):
        connection.exec_driver_sql(column_statement(connection.dialect))


def is_complete(connection: Connection) -> bool:
    """Whether the table is there, with all its columns."""
    found = inspect(connection)
    if not found.has_table(outcome.name):
        return False
    return "sent" in {column["name"] for column in found.get_columns(outcome.name)}


def column_statement(dialect: Dialect) -> str:
    """Returns the SQL that adds the column ``sent``, for an operator."""
    kind = outcome.c.sent.type.compile(dialect=dialect)
    return f"ALTER TABLE {outcome.name} ADD COLUMN sent {kind}"


@functools.lru_cache(maxsize=8)
def _insertion(dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    """Returns the SQL of an insertion, and the names of positional parameters. Made once for a dialect."""
    columns = [column.name for column in outcome.c if column.name != "sent"]
    compiled = insert(outcome).compile(dialect=dialect, column_keys=columns)
    return str(compiled), tuple(compiled.positiontup or ()) if compiled.positional else ()


def _now() -> int:
    return time.time_ns() // 1_000_000
