"""Who has a message, who had it, what becomes of it then, and what that costs where many messages wait."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from connector.errors import ClaimLost, ProviderError
from connector.messaging.claim import Claim
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message, delivery_time_after
from connector.messaging.polling import Poller
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.connection import LocalConnection
from connector.stores.engine.store import Reader
from connector.stores.memory.provider import MemoryProvider
from connector.stores.memory.store import MemoryStore
from tests.stores.memory.conftest import ORDERS, Text
from tests.tables import Table

FEW, MANY = 10, 2_000


def take(poller: Poller, sequence: int = 0) -> Claim:
    claim = poller.take(1, sequence)
    assert claim is not None
    return claim


def bodies(connection: LocalConnection, name: str = "orders") -> list[str]:
    return [message.body.decode() for message in connection.browse(parse_destination(name))]


def test_a_claim_that_another_found_is_lost_to_whoever_had_it(provider: MemoryProvider, text: Text) -> None:
    first, second, third = (provider.connect() for _ in range(3))
    first.send(ORDERS, [text("1")])
    take(first.poller(ORDERS))
    first.abandon()
    (leftover,) = second.leftovers(None, at_start=False)
    (found,) = leftover.claims
    leftover.release()
    (leftover,) = third.leftovers(None, at_start=False)
    with pytest.raises(ClaimLost, match="nothing was settled"):
        second.settle([Settlement(found)])
    third.settle([Settlement(leftover.claims[0], give_back=True, delivery_count=1)])
    leftover.forget()
    assert bodies(third) == ["1"]


def test_rejected_ones_are_read_once(connection: LocalConnection, text: Text, asked: list[Message]) -> None:
    connection.send(ORDERS, [text(str(n)) for n in range(50)])
    poller = connection.poller(ORDERS, selector="FALSE")
    for _ in range(10):
        assert poller.take(1, 0) is None
    connection.send(ORDERS, [text("late")])
    assert poller.take(1, 0) is None
    assert len(asked) == 51


def growth(use: Callable[[int], None]) -> float:
    """Returns how many bytes more the process keeps for each time of 300 that something is used again."""

    def kept() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    use(100)
    tracemalloc.start()
    try:
        before = kept()
        use(300)
        return (kept() - before) / 300
    finally:
        tracemalloc.stop()


def test_what_selecting_consumers_take_leaves_nothing_behind(connection: LocalConnection, text: Text) -> None:
    selecting = connection.poller(ORDERS, selector="JMSType = 'T'")
    other = connection.poller(ORDERS, selector="JMSType = 'T'")

    def pass_on(count: int) -> None:
        for number in range(count):
            connection.send(ORDERS, [text(str(number), type="T")])
            connection.settle([Settlement(take(selecting, number))])

    assert growth(pass_on) < 50  # less than a small object for each
    assert other.take(1, 0) is None


def test_nothing_is_kept_of_ended_temporary_destinations(connection: LocalConnection, text: Text) -> None:
    def use(count: int) -> None:
        for _ in range(count):
            queue, topic = connection.temporary("queue"), connection.temporary("topic")
            for poller in (connection.poller(queue), connection.poller(TopicSubscription(topic))):
                connection.send(poller.destination, [text()])
                connection.settle([Settlement(take(poller))])
                poller.close()
            connection.delete_temporary(queue)
            connection.delete_temporary(topic)

    assert growth(use) < 200  # what a single small object for each would take, and more


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


def test_a_redelivery_limit_of_nothing_is_no_limit(text: Text) -> None:
    connection = MemoryProvider(redelivery_limit=0).connect()
    connection.send(ORDERS, [text("1")])
    assert take(connection.poller(ORDERS)).delivery_count == 0


# -- many messages -------------------------------------------------------------------------------------


def steps(action: Callable[[], object]) -> int:
    """Does something, and returns the number of lines that ran. Coverage adds instructions, but no lines."""
    number = 0

    def count(_: FrameType, event: str, argument: object) -> Any:
        nonlocal number
        number += event == "line"
        return count

    tracing = sys.gettrace()
    gc.collect()
    gc.disable()  # what is collected may call Python
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(tracing)
        gc.enable()
    return number


def next_claim(connection: LocalConnection, selector: str = "") -> Callable[[], object]:
    """Returns a claim of a message, after a first claim that has seen what waits."""
    poller = connection.poller(ORDERS, selector=selector)
    poller.claim(1, range(1))
    return lambda: poller.claim(2, range(1))


def end_the_dead(connection: LocalConnection) -> None:
    for one in connection.leftovers(None, at_start=False):
        one.forget()


def test_a_claim_takes_as_many_steps_however_many_messages_wait(text: Text) -> None:
    cases: dict[str, tuple[str, dict[str, object]]] = {
        "waiting": ("", {}),
        "expiring": ("", {"expiration": delivery_time_after(3_600_000)}),
        "delayed": ("", {"delivery_time": delivery_time_after(3_600_000)}),
        "rejected": ("JMSType = 'T'", {}),
        "selected": ("JMSType = 'T'", {"type": "T"}),
    }
    with Table() as table:
        for name, (selector, headers) in cases.items():
            with table.row(name):
                found = []
                for number in (FEW, MANY):
                    connection = MemoryProvider(max_bytes=1 << 30).connect()
                    connection.send(ORDERS, [text("1", **headers) for _ in range(number)])
                    found.append(steps(next_claim(connection, selector)))
                assert found[0] == found[1]


def test_a_takeover_takes_as_many_steps_however_many_messages_wait(text: Text) -> None:
    found = []
    for number in (FEW, MANY):
        provider = MemoryProvider(max_bytes=1 << 30)
        dead, other = provider.connect(), provider.connect()
        other.send(ORDERS, [text("1") for _ in range(number)])
        next_claim(dead)()
        dead.abandon()
        found.append(steps(partial(end_the_dead, other)))
    assert found[0] == found[1]
