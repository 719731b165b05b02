"""The store on SQLite passes the shipped suites."""

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

REFUSE = """
CREATE TRIGGER refused BEFORE INSERT ON channel WHEN NEW.name = 'queue://blocked'
BEGIN SELECT RAISE(ABORT, 'refused by a test'); END
"""


class TestSqlite(ProviderSuite):
    @pytest.fixture
    def url(self, root: Path) -> str:
        return f"sqlite:///{root}/messages.db"

    @pytest.fixture
    def provider(self, url: str) -> SqlProvider:
        return SqlProvider(Settings(url))

    @pytest.fixture
    def unwritable(self, provider: SqlProvider, url: str) -> Destination:
        provider.connect().close()
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text(REFUSE))
        engine.dispose()
        return parse_destination("queue://blocked")

    @pytest.fixture
    def limited(self, root: Path) -> SqlProvider:
        return SqlProvider(Settings(f"sqlite:///{root}/limited.db"), redelivery_limit=2)


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
