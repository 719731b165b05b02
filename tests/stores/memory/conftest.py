"""Parts that the tests of the memory provider share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import NON_PERSISTENT, Message
from connector.stores.engine.connection import LocalConnection
from connector.stores.memory.provider import MemoryProvider

ORDERS, BILLS = parse_destination("queue://orders"), parse_destination("queue://bills")
ARCHIVE = parse_destination("queue://archive")
PRICES = parse_destination("topic://prices")


@pytest.fixture
def provider() -> Iterator[MemoryProvider]:
    provider = MemoryProvider()
    yield provider
    provider.close()


@pytest.fixture
def connection(provider: MemoryProvider) -> LocalConnection:
    return provider.connect()


def text(body: str | bytes = "body", **headers: Any) -> Message:
    """Returns a message that the provider takes."""
    data = body.encode() if isinstance(body, str) else body
    return Message(data, **{"delivery_mode": NON_PERSISTENT, **headers})


def bodies(connection: LocalConnection, queue: Destination = ORDERS) -> list[bytes]:
    return [message.body for message in connection.browse(queue)]
