"""Temporary destinations leave nothing behind when they end."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.messaging.message import NON_PERSISTENT, Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.connection import LocalConnection
from connector.stores.engine.store import Reader
from connector.stores.memory.provider import MemoryProvider
from connector.stores.memory.store import MemoryStore


def test_a_temporary_queue_that_ends_while_somebody_comes_to_it_is_not_made_anew(
    provider: MemoryProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, other = provider.connect(origin="same"), provider.connect(origin="same")
    queue = owner.temporary("queue")
    make = MemoryStore.reader

    def late(store: MemoryStore, *arguments: Any) -> Reader:
        owner.close()
        return make(store, *arguments)

    monkeypatch.setattr(MemoryStore, "reader", late)
    poller = other.poller(queue)
    with pytest.raises(ProviderError, match=queue.name):
        poller.claim(1, range(1))
    assert other.names() == []


def test_nothing_is_kept_of_temporary_destinations_that_have_ended(connection: LocalConnection) -> None:
    def use(number: int) -> None:
        for _ in range(number):
            queue, topic = connection.temporary("queue"), connection.temporary("topic")
            for poller in (connection.poller(queue), connection.poller(TopicSubscription(topic))):
                connection.send(poller.destination, [Message(b"body", delivery_mode=NON_PERSISTENT)])
                (claim,) = poller.claim(1, range(2))
                connection.settle([Settlement(claim)])
                poller.close()
            connection.delete_temporary(queue)
            connection.delete_temporary(topic)

    def kept() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    use(10)
    tracemalloc.start()
    try:
        before = kept()
        use(300)
        assert kept() - before < 300 * 200  # what a single small object for each would take, and more
    finally:
        tracemalloc.stop()
