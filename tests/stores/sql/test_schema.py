"""The tables: those of an earlier version are migrated, and docs/reference/database.md tells of all."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence

import pytest

from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.stores.sql import schema
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.schema import metadata, state_metadata
from tests.database_page import PAGE, STATEMENTS, move
from tests.stores.sql.conftest import program

ORDERS, ARCHIVE, ERROR = map(parse_destination, ("orders", "archive", "error"))

TO_NEXT = (
    "ALTER TABLE message_reference ADD COLUMN stamp TEXT",
    "UPDATE message_reference SET stamp = 'old'",
)
TO_LAST = ("CREATE TABLE step (id INTEGER PRIMARY KEY)", "INSERT INTO step (id) VALUES (5)")
KNOWN = schema.MIGRATIONS
VERSION = 1 + len(KNOWN)
WRONG = ("DELETE FROM message", "ALTER TABLE nowhere ADD COLUMN stamp TEXT")


@pytest.fixture
def filled(url: str) -> str:
    """The URL of a database of this version with two messages, one of which is claimed."""
    connection = SqlProvider(Settings(url)).connect("suite", "one")
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    connection.poller(ORDERS).claim(1, range(1))
    connection.abandon()
    return url


def use(monkeypatch: pytest.MonkeyPatch, *migrations: Sequence[str]) -> None:
    by_dialect = tuple(dict.fromkeys(("sqlite", "postgresql"), one) for one in migrations)
    monkeypatch.setattr(schema, "MIGRATIONS", KNOWN + by_dialect)


def read(url: str, statement: str) -> list[tuple[object, ...]]:
    with program(url) as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


def test_older_tables_are_migrated_with_their_messages(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TO_NEXT, TO_LAST)
    connection = SqlProvider(Settings(filled)).connect("suite", "two")
    assert read(filled, "SELECT version FROM schema_version") == [(VERSION + 2,)]
    assert read(filled, "SELECT stamp FROM message_reference") == [("old",)] * 2
    assert read(filled, "SELECT id FROM step") == [(5,)]
    for leftover in connection.leftovers(None, at_start=True):
        leftover.forget()
    claims = connection.poller(ORDERS).claim(1, range(5))
    connection.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims])
    assert sorted(message.body for message in connection.browse(ARCHIVE)) == [b"1", b"2"]
    connection.close()


def test_a_migration_that_fails_changes_nothing(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TO_NEXT, WRONG)
    said = rf"from schema version {VERSION + 1} to {VERSION + 2}, nothing was changed: .*nowhere"
    with pytest.raises(ProviderError, match=said):
        SqlProvider(Settings(filled)).connect()
    use(monkeypatch)
    connection = SqlProvider(Settings(filled)).connect("suite", "two")
    assert read(filled, "SELECT version FROM schema_version") == [(VERSION,)]
    assert sorted(message.body for message in connection.browse(ORDERS)) == [b"1", b"2"]
    connection.close()


def test_newer_tables_are_refused_by_name(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TO_NEXT)
    SqlProvider(Settings(url)).connect().close()
    use(monkeypatch)
    said = (
        f"{re.escape(Settings(url).title)} have the schema version {VERSION + 1}, .* knows {VERSION}: .*newer"
    )
    again = pickle.loads(pickle.dumps(SqlProvider(Settings(url))))
    for look in (SqlProvider(Settings(url)).existing, again.connect, again.check):
        with pytest.raises(ProviderError, match=said):
            look()


# -- the page ------------------------------------------------------------------------------------------


def test_another_program_sends_and_reads(url: str) -> None:
    kind = "sqlite" if url.startswith("sqlite") else "postgresql"
    connection = SqlProvider(Settings(url)).connect("suite", "one")
    poller = connection.poller(ORDERS)
    waiter = connection.waiter()
    assert waiter is not None
    waiter.begin()
    with program(url) as other:
        for statement in STATEMENTS[f"send-{kind}"].split(";"):
            other.exec_driver_sql(statement)
    assert waiter.wait(120), "whoever waits is told of it"
    claim = poller.take(1, 0)
    assert claim is not None
    message = connection.access().open().load(claim.reference, 1000)
    found = message.body, message.type, message.properties, message.delivery_count
    assert found == (b'{"OrderId": "O-1"}', "order", {"region": "EU"}, 1)
    assert (message.message_id or "").startswith("ID:")
    sent = [Message(b"low", priority=1), Message(b"high", type="T", priority=9)]
    sent[0].set_property("region", "US")
    connection.send(ORDERS, sent)
    with program(url) as other:
        rows = other.exec_driver_sql(STATEMENTS["read"]).fetchall()
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
