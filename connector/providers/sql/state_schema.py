"""The tables of PostgreSQL for the state of applications: who lives, what tasks do, who has which name.

SQLite has files instead. ``docs/reference/database.md`` describes every column.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Identity,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSON

metadata: Final = MetaData()
NOW: Final = func.clock_timestamp()
_FALSE: Final = text("FALSE")

process: Final = Table(
    "process",
    metadata,
    Column("id", Text, primary_key=True),
    Column("machine", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("lease", Double, nullable=False),
    Column("beat", DateTime(timezone=True), nullable=False),
)

client_process: Final = Table(
    "client_process",
    metadata,
    Column("client", Text, primary_key=True),
    Column("process", Text, nullable=False),
)

instance: Final = Table(
    "instance",
    metadata,
    Column("application", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("process", Text),
    Column("hold", Text),
    Column("note", JSON, nullable=False, server_default="{}"),
)

task_list: Final = Table(
    "task_list",
    metadata,
    Column("id", BigInteger, Identity(), primary_key=True),
    Column("application", Text, nullable=False),
    Column("instance", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("given_up", Boolean, nullable=False, server_default=_FALSE),
    UniqueConstraint("application", "instance", "client"),
)

task: Final = Table(
    "task",
    metadata,
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
    Column("changed", DateTime(timezone=True), nullable=False, server_default=NOW),
    UniqueConstraint("list", "batch", "place", "job"),
    postgresql_with={"fillfactor": 50},
)

outcome: Final = Table(
    "task_outcome",
    metadata,
    Column("task", BigInteger, primary_key=True),
    Column("event", BigInteger, primary_key=True),
    Column("outcome", LargeBinary),
)
