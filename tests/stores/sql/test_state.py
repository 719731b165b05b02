"""The state of an application in PostgreSQL passes the shipped suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.messaging.state_store import StateStore
from connector.stores.sql.database import Settings
from connector.stores.sql.provider import SqlProvider
from connector.testing.state import StateStoreSuite


class TestPostgresState(StateStoreSuite):
    @pytest.fixture
    def provider(self, database: str) -> SqlProvider:
        return SqlProvider(Settings(database))

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
