"""The store on SQLite and on PostgreSQL passes the shipped suites."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.state_store import StateStore
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.stores.sql.schema import metadata
from connector.testing.provider import ProviderSuite
from connector.testing.state import StateStoreSuite
from tests.postgres import PostgresServer
from tests.stores.conftest import new_root

SQLITE = """
CREATE TRIGGER refused BEFORE INSERT ON channel WHEN NEW.name = 'queue://blocked'
BEGIN SELECT RAISE(ABORT, 'refused by a test'); END
"""
POSTGRESQL = """
ALTER TABLE channel ADD CONSTRAINT refused_by_a_test CHECK (name <> 'queue://blocked')
"""


SQLITE_AGAIN = "DROP TRIGGER IF EXISTS refused"
POSTGRESQL_AGAIN = "ALTER TABLE channel DROP CONSTRAINT IF EXISTS refused_by_a_test"

_TABLES = (
    *("channel", "message", "message_reference", "client", "subscription", "record", "published"),
    *("in_flight", "process"),
)
_STATE_TABLES = "instance", "task_list", "task", "task_outcome"


class _Suite(ProviderSuite):
    """All tests of a class use one database, because to make one takes longer than most tests."""

    able = SqlProvider.capabilities
    can_spoil = True
    message_groups = True

    @pytest.fixture(params=["""'{"bad": []}'""", "'[]'"])
    def spoil(self, engine: Engine, request: pytest.FixtureRequest) -> Callable[[Destination, str], None]:
        def write(destination: Destination, identity: str) -> None:
            change = f"UPDATE message SET properties = {request.param} WHERE headers ->> 'JMSMessageID' = :id"
            with engine.begin() as connection:
                assert connection.execute(text(change), {"id": identity}).rowcount == 1

        return write

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls, url: str) -> tuple[SqlProvider, SqlProvider]:
        """A provider, and one with a redelivery limit."""
        provider, limited = SqlProvider(Settings(url)), SqlProvider(Settings(url), redelivery_limit=2)
        provider.connect().close()
        return provider, limited

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, url: str) -> Iterator[Engine]:
        engine = create_engine(url)
        yield engine
        engine.dispose()

    @pytest.fixture
    def empty(self, made: object, engine: Engine) -> None:
        """Removes what the test before has left."""
        is_sqlite = engine.dialect.name == "sqlite"
        with engine.begin() as connection:
            connection.execute(text(SQLITE_AGAIN if is_sqlite else POSTGRESQL_AGAIN))
            if is_sqlite:
                for table in reversed(metadata.sorted_tables):
                    if table.name in _TABLES:
                        connection.execute(table.delete())
            else:
                connection.execute(text(f"TRUNCATE {', '.join((*_TABLES, *_STATE_TABLES))}"))
        if is_sqlite:
            shutil.rmtree(f"{engine.url.database}.state", ignore_errors=True)

    @pytest.fixture
    def provider(self, made: tuple[SqlProvider, SqlProvider], empty: None) -> SqlProvider:
        return made[0]

    @pytest.fixture
    def limited(self, made: tuple[SqlProvider, SqlProvider], empty: None) -> SqlProvider:
        return made[1]

    @pytest.fixture
    def unwritable(self, provider: SqlProvider, engine: Engine) -> Destination:
        with engine.begin() as connection:
            connection.execute(text(SQLITE if engine.dialect.name == "sqlite" else POSTGRESQL))
        return parse_destination("queue://blocked")


class TestSqlite(_Suite):
    @pytest.fixture(scope="class")
    @classmethod
    def url(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
        with new_root(tmp_path_factory.mktemp("sqlite")) as root:
            yield f"sqlite:///{root}/messages.db"


class TestPostgres(_Suite):
    @pytest.fixture(scope="class")
    @classmethod
    def url(cls, postgres: PostgresServer) -> str:
        return postgres.url(postgres.make_database())


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
