"""Parts that the tests of the memory provider share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import NON_PERSISTENT, Message
from connector.stores.engine.connection import LocalConnection
from connector.stores.memory.provider import MemoryProvider

ORDERS, BILLS = parse_destination("queue://orders"), parse_destination("queue://bills")
ARCHIVE = parse_destination("queue://archive")
PRICES = parse_destination("topic://prices")
Text = Callable[..., Message]
"""The type of the fixture ``text``."""


@pytest.fixture
def provider() -> Iterator[MemoryProvider]:
    provider = MemoryProvider()
    yield provider
    provider.close()


@pytest.fixture
def connection(provider: MemoryProvider) -> LocalConnection:
    return provider.connect()


@pytest.fixture
def text() -> Callable[..., Message]:
    """Makes a message that the provider takes."""

    def make(body: str | bytes = "body", **headers: object) -> Message:
        data = body.encode() if isinstance(body, str) else body
        return Message(data, **{"delivery_mode": NON_PERSISTENT, **headers})  # type: ignore[arg-type]

    return make
