"""The tables, and how they are made. docs/reference/database.md describes every column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import JSON, Column, Connection, MetaData, Table, column, func, inspect, literal_column, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CheckConstraint, Computed, CreateSchema, Identity, Index, UniqueConstraint
from sqlalchemy.sql.functions import GenericFunction
from sqlalchemy.types import (
    BigInteger,
    Boolean,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    Text,
    UserDefinedType,
)

from connector.errors import ProviderMisconfigured

_GROUP_INDEX: Final = (
    "CREATE INDEX IF NOT EXISTS message_reference_group ON message_reference (coalesce(home, channel)) "
    "WHERE claimed_group IS NOT NULL"
)
_CLAIMED_GROUPS: Final = (
    "UPDATE message_reference SET claimed_group = (SELECT group_id FROM message WHERE message.id = message) "
    "WHERE state = 'DELIVERED' AND settled IS NULL AND claimed_group IS NULL"
)
_DUE_INDEX: Final = (
    "CREATE INDEX IF NOT EXISTS message_reference_due ON message_reference (channel, due) "
    "WHERE state = 'NEW' AND part = 'DELAYED'"
)
MIGRATIONS: tuple[Mapping[str, Sequence[str]], ...] = (
    {
        "sqlite": (
            # SQLite adds no stored column. A column that SQLite computes at each read has the same values.
            "ALTER TABLE message ADD COLUMN group_id TEXT GENERATED ALWAYS AS "
            "(CASE WHEN json_valid(properties) THEN properties ->> '$.JMSXGroupID' END) VIRTUAL",
            "ALTER TABLE message_reference ADD COLUMN claimed_group TEXT",
            _GROUP_INDEX,
            _CLAIMED_GROUPS,
            "ALTER TABLE client ADD COLUMN process TEXT",
        ),
        "postgresql": (
            "ALTER TABLE message ADD COLUMN IF NOT EXISTS group_id TEXT GENERATED ALWAYS AS "
            r"((CAST(replace(CAST(properties AS text), '\u0000', '\ufffd') AS json) ->> 'JMSXGroupID')) "
            "STORED",
            "ALTER TABLE message_reference ADD COLUMN IF NOT EXISTS claimed_group TEXT",
            _GROUP_INDEX,
            _CLAIMED_GROUPS,
            "ALTER TABLE client ADD COLUMN IF NOT EXISTS process TEXT",
            "DO $$ BEGIN IF to_regclass('client_process') IS NOT NULL THEN UPDATE client SET process = "
            "(SELECT held.process FROM client_process AS held WHERE held.client = client.id); "
            "DROP TABLE client_process; END IF; END $$",
        ),
    },
    {
        "sqlite": ("ALTER TABLE message_reference ADD COLUMN due BIGINT", _DUE_INDEX),
        "postgresql": ("ALTER TABLE message_reference ADD COLUMN IF NOT EXISTS due BIGINT", _DUE_INDEX),
    },
)
"""The statements from schema version 1 to 2, from 2 to 3, and so on, by the name of the dialect.

Builds between 0.2.0 and version 2 made tables of version 1 with some of the columns of version 2. So a column
that is there is not added, and the other statements do nothing where nothing is to do.
"""

_ADDED: Final = re.compile(r"ALTER TABLE (\w+) ADD COLUMN (\w+) ")

# Constants of the SQL text, not parameters: partial indexes depend on them.
NOT_COMMITTED: Final = literal_column("'NOT_COMMITTED'", Text)
NEW: Final = literal_column("'NEW'", Text)
DELIVERED: Final = literal_column("'DELIVERED'", Text)
NOBODY: Final = ""
"""The owner of a message that was left in an in-progress destination."""
PROCESSED: Final = "PROCESSED"
"""The part of a channel with messages settled without a copy. No reader takes from it."""

_MAKING: Final = 0x636F6E6E6563746F
"""Key of the lock under which PostgreSQL makes the tables: ``connecto`` as a number."""


class PostgresType(UserDefinedType[Any]):
    """A type of PostgreSQL that SQLAlchemy does not have."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **options: Any) -> str:
        return self.name


class group_of(GenericFunction[str]):
    """The JMSXGroupID in a column with properties. NULL = there is none.

    PostgreSQL cannot decode ``\\u0000`` in any property, so another character stands for that one.
    """

    type = Text()
    inherit_cache = True


@compiles(group_of, "sqlite")
def _compile_group_for_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    properties = compiler.process(element.clauses, **options)
    return f"(CASE WHEN json_valid({properties}) THEN {properties} ->> '$.JMSXGroupID' END)"


@compiles(group_of)
def _compile_group(element: Any, compiler: Any, **options: Any) -> str:
    properties = f"CAST({compiler.process(element.clauses, **options)} AS text)"
    return rf"(CAST(replace({properties}, '\u0000', '\ufffd') AS json) ->> 'JMSXGroupID')"


metadata: Final = MetaData()
state_metadata: Final = MetaData()
"""Tables of PostgreSQL alone. SQLite has files instead."""
_Id: Final = BigInteger().with_variant(Integer, "sqlite")
_Json: Final = JSON(none_as_null=True)
_Transaction: Final = PostgresType("xid8").with_variant(Integer, "sqlite")
_FALSE: Final = text("FALSE")

schema_version: Final = Table("schema_version", metadata, Column("version", Integer, nullable=False))

counter: Final = Table(
    "counter", metadata, Column("name", Text, primary_key=True), Column("value", BigInteger, nullable=False)
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
    Column("state", Text, nullable=False, server_default="NEW"),
    Column("priority", Integer, nullable=False, server_default="4"),
    Column("expiration", BigInteger, nullable=False, server_default="0"),
    Column("due", BigInteger),
    Column("delivery_count", Integer, nullable=False, server_default="0"),
    Column("properties", _Json),
    Column("version", Integer, nullable=False, server_default="0"),
    Column("changed", _Transaction),
    Column("returned_by", Text),
    Column("owner", Text),
    Column("cycle", BigInteger),
    Column("sequence", BigInteger),
    Column("taken_from", Text),
    Column("home", Text),
    Column("home_part", Text),
    Column("waits", Boolean, nullable=False, server_default=_FALSE),
    Column("claimed_group", Text),
    Column("key", Text),
    Column("settled", BigInteger),
    CheckConstraint("state IN ('NOT_COMMITTED', 'NEW', 'DELIVERED')"),
    sqlite_autoincrement=True,
)


_r: Final = reference.c
_came_from: Final = func.coalesce(_r.home, _r.channel)
for _name, _columns, _where in (
    ("new", (_r.channel, _r.part, _r.priority.desc(), _r.id), "state = 'NEW'"),
    ("changed", (_r.channel, _r.part, _r.changed), "state = 'NEW'"),
    ("expiring", (_r.channel, _r.part, _r.expiration), "state = 'NEW' AND expiration > 0"),
    ("due", (_r.channel, _r.due), "state = 'NEW' AND part = 'DELAYED'"),
    ("counted", (_r.channel, _r.part, _r.delivery_count), "state = 'NEW' AND delivery_count > 0"),
    ("owner", (_r.owner, _r.channel), "state = 'DELIVERED' AND settled IS NULL"),
    ("group", (_came_from,), "claimed_group IS NOT NULL"),
    ("key", (_r.owner, _r.key), "state = 'NOT_COMMITTED'"),
    ("settled", (_r.channel, _r.part, _r.settled), "settled IS NOT NULL"),
):
    _partial: dict[str, Any] = {"sqlite_where": text(_where), "postgresql_where": text(_where)}
    Index(f"message_reference_{_name}", *_columns, unique=_name == "key", **_partial)
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
    Column("declared_dead", Boolean, nullable=False, server_default=_FALSE),
    Column("taken_by", Text),
    Column("process", Text),
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
    Column("changed", _Transaction, nullable=False),
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

CLOCK: Final = func.clock_timestamp()
"""The clock of PostgreSQL."""

process: Final = Table(
    "process",
    state_metadata,
    Column("id", Text, primary_key=True),
    Column("machine", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("lease", Double, nullable=False),
    Column("beat", DateTime(timezone=True), nullable=False),
)

instance: Final = Table(
    "instance",
    state_metadata,
    Column("application", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("process", Text),
    Column("hold", Text),
    Column("note", JSON, nullable=False, server_default="{}"),
)

task_list: Final = Table(
    "task_list",
    state_metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("application", Text, nullable=False),
    Column("instance", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("given_up", Boolean, nullable=False, server_default=_FALSE),
    UniqueConstraint("application", "instance", "client"),
)

task: Final = Table(
    "task",
    state_metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("list", BigInteger, nullable=False),
    Column("batch", BigInteger, nullable=False),
    Column("place", Integer, nullable=False),
    Column("job", BigInteger, nullable=False),
    Column("opened", Text),
    Column("process", Text),
    Column("event", BigInteger),
    Column("begun", Boolean, nullable=False, server_default=_FALSE),
    Column("given_up", Boolean, nullable=False, server_default=_FALSE),
    Column("changed", DateTime(timezone=True), nullable=False, server_default=CLOCK),
    UniqueConstraint("list", "batch", "place", "job"),
    postgresql_with={"fillfactor": 50},
)

outcome: Final = Table(
    "task_outcome",
    state_metadata,
    Column("task", BigInteger, primary_key=True),
    Column("event", BigInteger, primary_key=True),
    Column("outcome", LargeBinary),
)

_SQLITE: Final = (
    # Rows that another program inserts get the number of their transaction, too.
    "CREATE TRIGGER message_reference_inserted AFTER INSERT ON message_reference "
    "WHEN NEW.changed IS NULL BEGIN UPDATE counter SET value = value + 1 WHERE name = 'transactions'; "
    "UPDATE message_reference SET changed = (SELECT value FROM counter WHERE name = 'transactions') "
    "WHERE id = NEW.id; END",
)
_POSTGRESQL: Final = (
    "ALTER TABLE message_reference ALTER changed SET DEFAULT pg_current_xact_id()",
    # Every message is updated twice and deleted. So vacuum by number of rows, not by share of the table.
    "ALTER TABLE message_reference SET (autovacuum_vacuum_scale_factor = 0.01, "
    "autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02, "
    "autovacuum_vacuum_cost_delay = 0, fillfactor = 80)",
    "ALTER TABLE message SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)",
)


def prepare(connection: Connection, where: str, schema: str | None, *, make: bool) -> bool:
    """Checks the version of the tables. Returns whether the tables exist.

    Args:
        connection: in a transaction.
        where: the database in error texts.
        schema: of PostgreSQL, for the tables. None = the first schema of the search path.
        make: whether to make missing tables, and to migrate older tables.

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
        found = _version(connection)  # another process may have been faster
        if found is None:
            _make(connection, latest)
            return True
        _migrate(connection, where, found)
        found = max(found, latest)
    if found is None:
        return False
    if found > latest:
        raise ProviderMisconfigured(
            f"the tables in {where} have the schema version {found}, and this program knows {latest}: a "
            "newer connector has made the tables; install that version here, or use another database"
        )
    if found < latest:
        raise ProviderMisconfigured(
            f"the tables in {where} have the schema version {found}, and this program needs {latest}: end "
            "all instances of the older version; run or send brings the tables to the new version"
        )
    return True


def _version(connection: Connection) -> int | None:
    """Returns the schema version of the tables. None = there are no tables."""
    if not inspect(connection).has_table(schema_version.name):
        return None
    return int(connection.execute(schema_version.select()).scalar_one())


def _migrate(connection: Connection, where: str, found: int) -> None:
    for number, statements in enumerate(MIGRATIONS[found - 1 :], found):
        try:
            for statement in statements[connection.dialect.name]:
                if not _has_added(connection, statement):
                    connection.exec_driver_sql(statement)
        except DBAPIError as error:
            raise ProviderMisconfigured(
                f"cannot bring the tables in {where} from schema version {number} to {number + 1}, nothing "
                f"was changed: {error.orig}"
            ) from error
        connection.execute(schema_version.update(), {"version": number + 1})


def _has_added(connection: Connection, statement: str) -> bool:
    """Whether a statement adds a column that is there. SQLite has no IF NOT EXISTS for columns."""
    added = _ADDED.match(statement)
    if added is None or connection.dialect.name != "sqlite":
        return False
    columns = "SELECT 1 FROM pragma_table_xinfo(:of) WHERE name = :name"
    return connection.execute(text(columns), {"of": added[1], "name": added[2]}).first() is not None


def _make(connection: Connection, version: int) -> None:
    metadata.create_all(connection, checkfirst=False)
    if connection.dialect.name == "postgresql":
        state_metadata.create_all(connection, checkfirst=False)
    connection.execute(schema_version.insert(), {"version": version})
    counters = [{"name": name, "value": 0} for name in ("transactions", "records")]
    connection.execute(counter.insert(), counters)
    for statement in _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL:
        connection.execute(text(statement))
