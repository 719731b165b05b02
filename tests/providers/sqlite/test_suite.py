"""A store on a database file passes the shipped suites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from connector.state.store import StateStore
from connector.testing.provider import ProviderSuite
from connector.testing.state import StateStoreSuite
from tests.providers.sqlite.provider import SqliteProvider


class TestSqlite(ProviderSuite):
    able = SqliteProvider.capabilities

    @pytest.fixture
    def provider(self, root: Path) -> SqliteProvider:
        return SqliteProvider(str(root / "messages"))

    @pytest.fixture
    def unwritable(self, provider: SqliteProvider) -> Destination:
        destination = parse_destination("queue://blocked")
        provider.refuse(destination)
        return destination

    @pytest.fixture
    def limited(self, root: Path) -> SqliteProvider:
        return SqliteProvider(str(root / "limited"), redelivery_limit=2)


class TestState(StateStoreSuite):
    @pytest.fixture
    def provider(self, root: Path) -> SqliteProvider:
        return SqliteProvider(str(root / "messages"))

    @pytest.fixture
    def open_store(self, provider: SqliteProvider) -> Callable[[], StateStore]:
        return lambda: provider.state("suite")

    @pytest.fixture
    def record(self, provider: SqliteProvider) -> Callable[[str, Sequence[str]], None]:
        def publish(client_id: str, keys: Sequence[str]) -> None:
            connection = provider.connect("suite", client_id)
            source = parse_destination("orders")
            connection.send(source, [Message() for _ in keys])
            claims = connection.poller(source).claim(1, range(len(keys)))
            settled = [Settlement(claim, published=key) for claim, key in zip(claims, keys, strict=True)]
            connection.settle(settled)
            connection.close()

        return publish
