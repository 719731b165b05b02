"""Who has a message, who had it, and what becomes of it then."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from connector.errors import ClaimLost
from connector.messaging.claim import Claim
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.selector import Selector, compile_selector
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.connection import LocalConnection
from connector.stores.memory.provider import MemoryProvider
from tests.waiting import wait_for, waits_in

ORDERS = parse_destination("queue://orders")
BILLS = parse_destination("queue://bills")
IN_PROGRESS = parse_destination("queue://in-progress")
PRICES = parse_destination("topic://prices")
AUDIT = TopicSubscription(PRICES, "audit", durable=True, shared=True)

Text = Callable[..., Message]


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


def test_several_claims_of_which_one_is_lost_settle_the_others_unless_fenced(
    connection: LocalConnection, text: Text
) -> None:
    connection.send(ORDERS, [text("1"), text("2")])
    poller = connection.poller(ORDERS)
    both = [Settlement(take(poller, n), copy_to=BILLS) for n in range(2)]
    connection.settle([both[0]])
    with pytest.raises(ClaimLost):
        connection.settle(both, fenced=True)
    assert bodies(connection, "bills") == ["1"]
    connection.settle(both)
    assert bodies(connection, "bills") == ["1", "2"]


def test_a_rejected_message_is_looked_at_once(
    connection: LocalConnection, text: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def compile_counting(selector: str) -> Selector:
        compiled = compile_selector(selector)

        def matches(message: Message) -> bool:
            asked.append(message)
            return compiled.matches(message)

        return Selector(selector, compiled.identifiers, matches)

    monkeypatch.setattr("connector.stores.engine.connection.compile_selector", compile_counting)
    connection.send(ORDERS, [text(str(n)) for n in range(50)])
    poller = connection.poller(ORDERS, selector="FALSE")
    for _ in range(10):
        assert poller.take(1, 0) is None
    connection.send(ORDERS, [text("late")])
    assert poller.take(1, 0) is None
    assert len(asked) == 51


def test_what_selecting_consumers_take_leaves_nothing_behind(connection: LocalConnection, text: Text) -> None:
    selecting = connection.poller(ORDERS, selector="JMSType = 'T'")
    other = connection.poller(ORDERS, selector="JMSType = 'T'")

    def pass_on(count: int) -> int:
        for number in range(count):
            connection.send(ORDERS, [text(str(number), type="T")])
            connection.settle([Settlement(take(selecting, number))])
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = pass_on(100)
        assert pass_on(1000) - before < 1000 * 50  # less than a small object for each
    finally:
        tracemalloc.stop()
    assert other.take(1, 0) is None


@pytest.mark.parametrize("by", ["a message", "a returned message", "the close"])
def test_waiting_in_one_thread_ends_from_another(provider: MemoryProvider, text: Text, by: str) -> None:
    waiting, other = provider.connect(), provider.connect()
    other.send(ORDERS, [text("1")])
    claim = take(other.poller(ORDERS))
    assert waiting.poller(ORDERS).take(1, 0) is None
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(waiting.wait, 1e6)
        wait_for(lambda: waits_in("wait"))
        assert not ended.done()
        if by == "a message":
            other.send(ORDERS, [text("2")])
        elif by == "a returned message":
            other.settle([Settlement(claim, give_back=True, delivery_count=1)])
        else:
            waiting.close()
        ended.result(timeout=120)


def test_a_message_for_another_destination_does_not_end_the_waiting(
    provider: MemoryProvider, text: Text
) -> None:
    waiting, other = provider.connect(), provider.connect()
    assert waiting.poller(ORDERS).take(1, 0) is None
    other.send(BILLS, [text("1")])
    begun = time.monotonic()
    waiting.wait(0.1)
    assert time.monotonic() - begun >= 0.1


def test_a_redelivery_limit_of_nothing_is_no_limit(text: Text) -> None:
    connection = MemoryProvider(redelivery_limit=0).connect()
    connection.send(ORDERS, [text("1")])
    assert take(connection.poller(ORDERS)).delivery_count == 0


def test_what_is_claimed_of_a_subscription_that_ended_can_still_be_settled(
    connection: LocalConnection, text: Text
) -> None:
    poller = connection.poller(TopicSubscription(PRICES))
    connection.send(PRICES, [text("1"), text("2"), text("3")])
    copied, returned = take(poller, 0), take(poller, 1)
    poller.close()
    connection.settle([Settlement(copied, copy_to=BILLS), Settlement(returned, give_back=True)])
    assert bodies(connection, "bills") == ["1"]
    assert connection.subscriptions() == []
