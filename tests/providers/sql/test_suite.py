"""The store on SQLite and on PostgreSQL passes the shipped suites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.providers.sql.database import Settings
from connector.providers.sql.provider import SqlProvider
from connector.state.store import StateStore
from connector.testing.provider import ProviderSuite
from connector.testing.state import StateStoreSuite
from tests.postgres import PostgresServer

SQLITE = """
CREATE TRIGGER refused BEFORE INSERT ON channel WHEN NEW.name = 'queue://blocked'
BEGIN SELECT RAISE(ABORT, 'refused by a test'); END
"""
POSTGRESQL = """
ALTER TABLE channel ADD CONSTRAINT refused_by_a_test CHECK (name <> 'queue://blocked')
"""


class _Suite(ProviderSuite):
    able = SqlProvider.capabilities

    @pytest.fixture
    def provider(self, url: str) -> SqlProvider:
        return SqlProvider(Settings(url))

    @pytest.fixture
    def unwritable(self, provider: SqlProvider, url: str) -> Destination:
        provider.connect().close()
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(SQLITE if url.startswith("sqlite") else POSTGRESQL))
        engine.dispose()
        return parse_destination("queue://blocked")

    @pytest.fixture
    def limited(self, url: str) -> SqlProvider:
        return SqlProvider(Settings(url), redelivery_limit=2)


class TestSqlite(_Suite):
    @pytest.fixture
    def url(self, root: Path) -> str:
        return f"sqlite:///{root}/messages.db"


_TABLES = (
    "channel, message, message_reference, client, subscription, record, published, in_flight, process, "
    "instance, task_list, task, task_outcome"
)


@pytest.fixture(scope="module")
def made(postgres: PostgresServer) -> str:
    """A database of PostgreSQL that the tests use one after the other, because to make one takes long."""
    url = postgres.url(postgres.make_database())
    SqlProvider(Settings(url)).connect().close()
    return url


class TestPostgres(_Suite):
    @pytest.fixture
    def url(self, made: str) -> str:
        engine = create_engine(made)
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE channel DROP CONSTRAINT IF EXISTS refused_by_a_test"))
            connection.execute(text(f"TRUNCATE {_TABLES}"))
        engine.dispose()
        return made


class TestState(StateStoreSuite):
    @pytest.fixture
    def provider(self, root: Path) -> SqlProvider:
        return SqlProvider(Settings(f"sqlite:///{root}/messages.db"))

    @pytest.fixture
    def open_store(self, provider: SqlProvider) -> Callable[[], StateStore]:
        return lambda: provider.state("suite")

    @pytest.fixture
    def record(self, provider: SqlProvider) -> Callable[[str, Sequence[str]], None]:
        def publish(client_id: str, keys: Sequence[str]) -> None:
            connection = provider.connect("suite", client_id)
            source = parse_destination("orders")
            connection.send(source, [Message() for _ in keys])
            claims = connection.poller(source).claim(1, range(len(keys)))
            settled = [Settlement(claim, published=key) for claim, key in zip(claims, keys, strict=True)]
            connection.settle(settled)
            connection.close()

        return publish
