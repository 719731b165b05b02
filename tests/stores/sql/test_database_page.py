"""docs/reference/database.md: its statements work, and it names every table and column."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.schema import metadata, state_metadata
from tests.database_page import PAGE, STATEMENTS, move

ORDERS, ERROR = parse_destination("orders"), parse_destination("error")


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
    assert waiter.wait(120), "whoever waits is told of it"
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


@pytest.mark.parametrize("selector", ["", "region = 'EU'"])
def test_an_operator_moves_a_message_back_and_no_message_that_is_claimed(url: str, selector: str) -> None:
    connection = SqlProvider(Settings(url)).connect("suite", "one")
    poller = connection.poller(ORDERS, selector=selector)
    sent = Message(b"body")
    sent.set_property("region", "EU")
    connection.send(ORDERS, [sent])
    claim = poller.take(1, 0)
    assert claim is not None
    connection.settle([Settlement(claim, copy_to=ERROR)])
    number = claim.reference[0]
    move(url, number, "queue://orders")
    assert list(connection.browse(ERROR)) == []
    again = poller.take(2, 0)
    assert again is not None
    move(url, number, "queue://error")
    assert list(connection.browse(ERROR)) == []
    connection.settle([Settlement(again)])


def test_the_page_names_every_table_and_column() -> None:
    for table in (*metadata.tables.values(), *state_metadata.tables.values()):
        assert f"`{table.name}`" in PAGE
        for column in table.columns:
            assert f"`{column.name}`" in PAGE, f"{table.name}.{column.name}"
