"""Tables of an earlier version become those of this one, in one transaction, with all that they hold."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine

from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.stores.sql import schema
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider

ORDERS, ARCHIVE = parse_destination("orders"), parse_destination("archive")

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
    engine = create_engine(Settings(url).parsed, poolclass=NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


def test_older_tables_are_migrated_step_by_step_with_their_messages(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_tables_that_are_made_anew_are_of_the_latest_version(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, TO_NEXT, TO_LAST)
    url = f"sqlite:///{root}/new.db"
    SqlProvider(Settings(url)).connect().close()
    assert read(url, "SELECT version FROM schema_version") == [(VERSION + 2,)]


def test_a_migration_that_fails_leaves_everything_as_it_was(
    filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
