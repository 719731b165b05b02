"""The tables of the database, and how they are made (docs/reference/database.md describes every column)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    Computed,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    column,
    func,
    inspect,
    literal_column,
    text,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateSchema
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import UserDefinedType

from connector.errors import ProviderError
from connector.providers.sql import state_schema

MIGRATIONS: tuple[Mapping[str, Sequence[str]], ...] = ()
"""The statements from schema version 1 to 2, from 2 to 3, and so on, by the name of the dialect."""

NOT_COMMITTED: Final = "NOT_COMMITTED"
NEW: Final = "NEW"
DELIVERED: Final = "DELIVERED"
NOBODY: Final = ""
"""The owner of a message that was left in an in-progress destination."""
PROCESSED: Final = "PROCESSED"
"""The part of a channel with messages that were settled without a copy; no reader takes from it."""

_MAKING: Final = 0x636F6E6E6563746F
"""Key of the lock under which PostgreSQL makes the tables: ``connecto`` as a number."""

metadata: Final = MetaData()
_Id: Final = BigInteger().with_variant(Integer, "sqlite")
_Json: Final = JSON(none_as_null=True)


class TransactionNumber(UserDefinedType[int]):
    """The type of :class:`this_transaction`: ``xid8`` of PostgreSQL, a number on SQLite."""

    cache_ok = True

    def get_col_spec(self, **options: Any) -> str:
        return "xid8"


class this_transaction(GenericFunction[int]):
    """The number of the transaction under way."""

    inherit_cache = True


@compiles(this_transaction, "sqlite")
def _compile_for_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return "(SELECT value FROM counter WHERE name = 'transactions')"


@compiles(this_transaction)
def _compile(element: Any, compiler: Any, **options: Any) -> str:
    return "pg_current_xact_id()"


class group_of(GenericFunction[str]):
    """The JMSXGroupID in a column with properties. Null where there is none.

    PostgreSQL decodes no ``\\u0000``, wherever it is in the properties, so another character stands for it.
    """

    type = Text()
    inherit_cache = True


@compiles(group_of, "sqlite")
def _compile_group_for_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"({compiler.process(element.clauses, **options)} ->> '$.JMSXGroupID')"


@compiles(group_of)
def _compile_group(element: Any, compiler: Any, **options: Any) -> str:
    properties = f"CAST({compiler.process(element.clauses, **options)} AS text)"
    return rf"(CAST(replace({properties}, '\u0000', '\ufffd') AS json) ->> 'JMSXGroupID')"


schema_version: Final = Table("schema_version", metadata, Column("version", Integer, nullable=False))

counter: Final = Table(
    "counter",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

channel: Final = Table("channel", metadata, Column("name", Text, primary_key=True))

message: Final = Table(
    "message",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("headers", _Json, nullable=False, server_default="{}"),
    Column("properties", _Json, nullable=False, server_default="{}"),
    Column("property_types", _Json),
    Column("group_id", Text, Computed(group_of(column("properties", _Json)), persisted=True)),
    Column("body", LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

reference: Final = Table(
    "message_reference",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("message", BigInteger, nullable=False),
    Column("channel", Text),
    Column("part", Text, nullable=False, server_default=""),
    Column("state", Text, nullable=False, server_default=NEW),
    Column("priority", Integer, nullable=False, server_default="4"),
    Column("expiration", BigInteger, nullable=False, server_default="0"),
    Column("delivery_count", Integer, nullable=False, server_default="0"),
    Column("properties", _Json),
    Column("version", Integer, nullable=False, server_default="0"),
    Column("changed", TransactionNumber().with_variant(Integer, "sqlite")),
    Column("returned_by", Text),
    Column("owner", Text),
    Column("cycle", BigInteger),
    Column("sequence", BigInteger),
    Column("taken_from", Text),
    Column("home", Text),
    Column("home_part", Text),
    Column("waits", Boolean, nullable=False, server_default=text("FALSE")),
    Column("claimed_group", Text),
    Column("key", Text),
    Column("settled", BigInteger),
    CheckConstraint("state IN ('NOT_COMMITTED', 'NEW', 'DELIVERED')"),
    sqlite_autoincrement=True,
)


def _index(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


_at = reference.c.channel, reference.c.part
_index("message_reference_new", *_at, reference.c.priority.desc(), reference.c.id, where="state = 'NEW'")
_index("message_reference_changed", *_at, reference.c.changed, where="state = 'NEW'")
_index("message_reference_expiring", *_at, reference.c.expiration, where="state = 'NEW' AND expiration > 0")
_index(
    "message_reference_counted",
    *_at,
    reference.c.delivery_count,
    where="state = 'NEW' AND delivery_count > 0",
)
_index(
    "message_reference_owner",
    reference.c.owner,
    reference.c.channel,
    where="state = 'DELIVERED' AND settled IS NULL",
)
came_from: Final = func.coalesce(reference.c.home, reference.c.channel)
"""The channel that a claimed message was claimed from."""
_index("message_reference_group", came_from, where="claimed_group IS NOT NULL")
_index(
    "message_reference_key",
    reference.c.owner,
    reference.c.key,
    where="state = 'NOT_COMMITTED'",
    unique=True,
)
_index("message_reference_settled", *_at, reference.c.settled, where="settled IS NOT NULL")
Index("message_reference_message", reference.c.message)

client: Final = Table(
    "client",
    metadata,
    Column("id", Text, primary_key=True),
    Column("application", Text, nullable=False),
    Column("instance", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("since", Double, nullable=False),
    Column("declared_dead", Boolean, nullable=False, server_default=text("FALSE")),
    Column("taken_by", Text),
)

subscription: Final = Table(
    "subscription",
    metadata,
    Column("key", Text, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("durable", Boolean, nullable=False),
    Column("details", _Json, nullable=False),
)

Index("subscription_topic", subscription.c.topic)

record: Final = Table(
    "record",
    metadata,
    Column("number", _Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("of", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("owner", Text),
    Column("data", _Json, nullable=False),
    UniqueConstraint("kind", "of", "key"),
)
Index("record_owner", record.c.owner)

published: Final = Table(
    "published",
    metadata,
    Column("number", _Id, primary_key=True),
    Column("application", Text, nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("changed", TransactionNumber().with_variant(Integer, "sqlite"), nullable=False),
    sqlite_autoincrement=True,
)
Index("published_application", published.c.application, published.c.changed)

in_flight: Final = Table(
    "in_flight",
    metadata,
    Column("application", Text, primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("client", Text, primary_key=True),
)

_SQLITE: Final = (
    # what another program inserts gets the number of its transaction, too
    "CREATE TRIGGER message_reference_inserted AFTER INSERT ON message_reference "
    "WHEN NEW.changed IS NULL BEGIN UPDATE counter SET value = value + 1 WHERE name = 'transactions'; "
    "UPDATE message_reference SET changed = (SELECT value FROM counter WHERE name = 'transactions') "
    "WHERE id = NEW.id; END",
)
_POSTGRESQL: Final = (
    "ALTER TABLE message_reference ALTER changed SET DEFAULT pg_current_xact_id()",
    # every message is updated twice and deleted: vacuum by number of rows, not by share of the table
    "ALTER TABLE message_reference SET (autovacuum_vacuum_scale_factor = 0.01, "
    "autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, "
    "autovacuum_vacuum_cost_delay = 0, fillfactor = 80)",
    "ALTER TABLE message SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)",
)


def prepare(connection: Connection, where: str, schema: str | None, *, make: bool) -> bool:
    """Looks for the tables, within the transaction under way.

    Args:
        connection: to the database.
        where: the database in error texts.
        schema: of PostgreSQL that the tables are in.
        make: whether the tables are made where they are missing, and migrated where they are older.

    Returns:
        whether they are there.

    Raises:
        ProviderError: the tables have another version, and are not or cannot be migrated.
    """
    latest = 1 + len(MIGRATIONS)
    found = _version(connection)
    if make and (found is None or found < latest):
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MAKING})"))
            if schema is not None:
                connection.execute(CreateSchema(schema, if_not_exists=True))
        found = _version(connection)  # another may have been faster
        if found is None:
            _make(connection, latest)
            return True
        _migrate(connection, where, found)
        found = max(found, latest)
    if found is None:
        return False
    if found > latest:
        raise ProviderError(
            f"the tables in {where} have the schema version {found}, and this program knows {latest}: a "
            "newer connector has made them; install that version here, or use another database"
        )
    if found < latest:
        raise ProviderError(
            f"the tables in {where} have the schema version {found}, and this program needs {latest}: end "
            "all instances of the older version; run or send brings the tables to the new one"
        )
    return True


def _version(connection: Connection) -> int | None:
    """The schema version of the tables; None where there are none."""
    if not inspect(connection).has_table(schema_version.name):
        return None
    return int(connection.execute(schema_version.select()).scalar_one())


def _migrate(connection: Connection, where: str, found: int) -> None:
    for number, statements in enumerate(MIGRATIONS[found - 1 :], found):
        try:
            for statement in statements[connection.dialect.name]:
                connection.exec_driver_sql(statement)
        except DBAPIError as error:
            raise ProviderError(
                f"cannot bring the tables in {where} from schema version {number} to {number + 1}, nothing "
                f"was changed: {error.orig}"
            ) from error
        connection.execute(schema_version.update(), {"version": number + 1})


def _make(connection: Connection, version: int) -> None:
    metadata.create_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        state_schema.metadata.create_all(connection, checkfirst=False)
    connection.execute(schema_version.insert(), {"version": version})
    counters = [{"name": name, "value": 0} for name in ("transactions", "records")]
    connection.execute(counter.insert(), counters)
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(text(statement))


def is_claimed() -> ColumnElement[bool]:
    """Whether a message is claimed, or left in an in-progress destination."""
    claimed = (reference.c.state == literal_column("'DELIVERED'")) & reference.c.settled.is_(None)
    return claimed & (reference.c.owner >= literal_column("''"))  # true of all, and lets SQLite use the index
