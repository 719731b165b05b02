"""docs/reference/database.md: its statements work, and it names every table and column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.providers.sql import state_schema
from connector.providers.sql.database import Settings
from connector.providers.sql.provider import SqlProvider
from connector.providers.sql.schema import metadata

PAGE = (Path(__file__).resolve().parents[3] / "docs/reference/database.md").read_text("utf-8")
STATEMENTS = dict(re.findall(r"```sql name=(\S+)\n(.*?)```", PAGE, re.DOTALL))
ORDERS = parse_destination("orders")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "postgresql":
        found: str = request.getfixturevalue("database")
        return found
    return f"sqlite:///{request.getfixturevalue('root')}/messages.db"


def test_another_program_sends_and_reads(url: str) -> None:
    kind = "sqlite" if url.startswith("sqlite") else "postgresql"
    connection = SqlProvider(Settings(url)).connect("suite", "one")
    poller = connection.poller(ORDERS)
    waiter = connection.waiter()
    assert waiter is not None
    waiter.begin()
    engine = create_engine(url)
    with engine.begin() as other:
        for statement in STATEMENTS[f"send-{kind}"].split(";"):
            other.exec_driver_sql(statement)
    assert waiter.wait(10), "whoever waits is told of it"
    claim = poller.take(1, 0)
    assert claim is not None
    message = connection.access().open().load(claim.reference, 1000)
    assert (message.body, message.type, message.properties, message.delivery_count) == (
        b'{"OrderId": "O-1"}',
        "order",
        {"region": "EU"},
        1,
    )
    assert (message.message_id or "").startswith("ID:")
    sent = [Message(b"low", priority=1), Message(b"high", type="T", priority=9)]
    sent[0].set_property("region", "US")
    connection.send(ORDERS, sent)
    with engine.connect() as other:
        rows = other.exec_driver_sql(STATEMENTS["read"]).fetchall()
    engine.dispose()
    assert [tuple(row)[1:] for row in rows] == [(9, "T", None, b"high"), (1, None, "US", b"low")]
    connection.abandon()


def test_the_page_names_every_table_and_column() -> None:
    for table in (*metadata.tables.values(), *state_schema.metadata.tables.values()):
        assert f"`{table.name}`" in PAGE
        for column in table.columns:
            assert f"`{column.name}`" in PAGE, f"{table.name}.{column.name}"
