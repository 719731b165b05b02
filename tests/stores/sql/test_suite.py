"""The store on SQLite and on PostgreSQL passes the shipped suites."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from sqlalchemy import text

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.state_store import StateStore
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from tests.postgres import PostgresServer
from tests.provider_suite.state import StateStoreSuite
from tests.provider_suite.suite import ProviderSuite
from tests.stores.conftest import new_root
from tests.stores.sql.conftest import EmptiedDatabase


class _Suite(ProviderSuite):
    """All tests of a class use one database, because to make one takes longer than most tests."""

    able = SqlProvider.capabilities
    can_spoil = True
    message_groups = True

    @pytest.fixture(params=["""'{"bad": []}'""", "'[]'"])
    def spoil(
        self, emptied: EmptiedDatabase, request: pytest.FixtureRequest
    ) -> Callable[[Destination, str], None]:
        def write(destination: Destination, identity: str) -> None:
            change = f"UPDATE message SET properties = {request.param} WHERE headers ->> 'JMSMessageID' = :id"
            with emptied.engine.begin() as connection:
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
    def database(cls, url: str) -> Iterator[EmptiedDatabase]:
        database = EmptiedDatabase(url)
        yield database
        database.close()

    @pytest.fixture
    def emptied(self, made: object, database: EmptiedDatabase) -> EmptiedDatabase:
        database.empty()
        return database

    @pytest.fixture
    def provider(self, made: tuple[SqlProvider, SqlProvider], emptied: EmptiedDatabase) -> SqlProvider:
        return made[0]

    @pytest.fixture
    def limited(self, made: tuple[SqlProvider, SqlProvider], emptied: EmptiedDatabase) -> SqlProvider:
        return made[1]

    @pytest.fixture
    def unwritable(self, provider: SqlProvider, emptied: EmptiedDatabase) -> Destination:
        emptied.refuse()
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
    def provider(self, url: str) -> SqlProvider:
        return SqlProvider(Settings(url))

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
