"""The differences between SQLite and PostgreSQL: their connections, and parts of statements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from sqlalchemy import ARRAY, ColumnElement, Engine, FromClause, bindparam, cast, column, event, func, select
from sqlalchemy import literal_column as literal
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import BigInteger, LargeBinary, String, Text

from connector.stores.sql.schema import PostgresType, counter, reference
from connector.stores.sql.statement import driver_of

IDLE_SECONDS: Final = 60
"""The time after which PostgreSQL ends an idle transaction. No transaction of the connector waits so long."""
READ_ONLY: Final = "connector_read_only"
"""Option of a connection whose transaction only reads."""


class RowsParameter:
    """A list of rows as one parameter of a statement. The parameter is ``rows``, or ``rows_<column>``.

    Args:
        columns: names and types. SQLite has no bytes here.
    """

    def __init__(
        self, dialect: Dialect, **columns: type[Text] | type[BigInteger] | type[LargeBinary]
    ) -> None:
        self._names = list(columns)
        self._as_arrays = dialect.name == "postgresql"
        self.source: FromClause
        if self._as_arrays:
            arrays = [bindparam(f"rows_{name}", type_=ARRAY(kind)) for name, kind in columns.items()]
            made = func.unnest(*arrays).table_valued(*(column(name, kind) for name, kind in columns.items()))
            self.source = made.render_derived(name="given")
        else:
            each = func.json_each(bindparam("rows", type_=String)).table_valued("value", name="each")
            picked = [
                func.json_extract(each.c.value, literal(f"'$[{index}]'"), type_=kind()).label(name)
                for index, (name, kind) in enumerate(columns.items())
            ]
            self.source = select(*picked).subquery("given")

    def __call__(self, rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Returns the parameters of a statement."""
        if not self._as_arrays:
            return {"rows": json.dumps(rows)}
        columns = list(zip(*rows, strict=True)) or [()] * len(self._names)
        return {f"rows_{name}": list(values) for name, values in zip(self._names, columns, strict=True)}


def same_version(source: FromClause) -> ColumnElement[bool]:
    """A condition: the ``id`` and the ``version`` of the reference are in ``source``."""
    return (reference.c.id == source.c.id) & (reference.c.version == source.c.version)


_read_text: Final = partial(str, encoding="utf-8", errors="surrogateescape")
"""Reads a text of SQLite, where other programs may have stored any bytes as text."""


class SqliteDialect:
    """SQLite: one writer at a time. A transaction begins with the lock.

    Attributes:
        now: the clock of the store, in milliseconds since 1970.
        transaction: the number of the transaction under way.
        mark: a mark of the present, for :meth:`since`.
        beginning: a mark before all transactions.
        insert: makes an INSERT that may end with ON CONFLICT.
    """

    name = "sqlite"
    now: ColumnElement[int] = literal(
        "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)", BigInteger
    )
    transaction: ColumnElement[Any] = (
        select(counter.c.value).where(counter.c.name == literal("'transactions'")).scalar_subquery()
    )
    mark = transaction
    beginning = 0
    insert = staticmethod(sqlite.insert)

    def configure(self, engine: Engine, *, schema: str | None, durable: bool, busy: float) -> None:
        """Sets up the settings of new connections."""

        @event.listens_for(engine, "connect")
        def tell(connection: Any, record: Any) -> None:
            connection.isolation_level = None  # the driver begins no transactions of its own
            connection.text_factory = _read_text
            connection.execute(f"PRAGMA busy_timeout = {int(busy * 1000)}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            reads = connection.get_execution_options().get(READ_ONLY)
            with driver_of(connection) as driver:
                driver.execute("BEGIN" if reads else "BEGIN IMMEDIATE")

    def since(self, changed: ColumnElement[Any]) -> ColumnElement[bool]:
        """A condition: the transaction in a column has ended after the mark in the parameter ``mark``."""
        return changed > bindparam("mark", type_=BigInteger)


_PLANS: Final = ("enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin")
"""Kinds of plans of PostgreSQL that read more rows than are wanted.

Before version 18, a plan that cannot do without a forbidden kind costs 1e10. Then all plans seem equal, and
PostgreSQL compiles the plan, which takes longer than a claim. So no repeated statement needs such kinds.
"""


class PostgresDialect:
    """PostgreSQL: many writers, which skip each other's rows. See :class:`SqliteDialect`."""

    name = "postgresql"
    now: ColumnElement[int] = literal(
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)", BigInteger
    )
    transaction: ColumnElement[Any] = func.pg_current_xact_id()
    mark: ColumnElement[Any] = cast(func.pg_current_snapshot(), Text)
    beginning = "1:1:"
    insert = staticmethod(postgresql.insert)

    def configure(self, engine: Engine, *, schema: str | None, durable: bool, busy: float) -> None:
        settings = {
            "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
            # The statements wait for each other's rows, and then see these rows as they are.
            "default_transaction_isolation": "read committed",
            # The tables fill and empty faster than statistics follow. An index has all rows that a statement
            # wants.
            **dict.fromkeys(_PLANS, "off"),
        }
        if not durable:
            settings["synchronous_commit"] = "off"
        if schema:
            settings["search_path"] = '"' + schema.replace('"', '""') + '"'

        @event.listens_for(engine, "connect")
        def tell(connection: Any, record: Any) -> None:
            before, connection.autocommit = connection.autocommit, True
            with connection.cursor() as cursor:
                for key, value in settings.items():
                    cursor.execute("SELECT set_config(%s, %s, false)", (key, value))
            connection.autocommit = before

    def since(self, changed: ColumnElement[Any]) -> ColumnElement[bool]:
        mark: ColumnElement[str] = cast(bindparam("mark", type_=Text), PostgresType("pg_snapshot"))
        seen = func.pg_visible_in_snapshot(changed, mark)
        return (changed >= func.pg_snapshot_xmin(mark)) & ~seen  # the first part is for the index


Dialect = SqliteDialect | PostgresDialect
_SQLITE: Final = SqliteDialect()
_POSTGRESQL: Final = PostgresDialect()


def dialect_of(name: str) -> Dialect:
    """Returns the dialect of a database system."""
    return _SQLITE if name == "sqlite" else _POSTGRESQL
