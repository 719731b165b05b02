"""Who has a message, who had it, and what becomes of it then."""

from __future__ import annotations

import gc
import logging
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from connector.errors import CapabilityError, ClaimLost, DestinationError, ProviderError, SubscriptionError
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


def test_who_dies_while_it_takes_over_leaves_it_to_the_next(provider: MemoryProvider, text: Text) -> None:
    first, second, third = (provider.connect() for _ in range(3))
    first.send(ORDERS, [text("1")])
    take(first.poller(ORDERS))
    first.abandon()
    (leftover,) = second.leftovers(None, at_start=False)
    assert list(third.leftovers(None, at_start=False)) == []
    second.abandon()
    found = {one.client_id: len(one.claims) for one in third.leftovers(None, at_start=False)}
    assert found == {first.client_id: 1, second.client_id: 0}
    leftover.forget()  # it is no longer its to forget
    assert bodies(third) == ["1"]


def test_a_message_in_progress_whose_owner_was_forgotten_has_none(
    provider: MemoryProvider, text: Text
) -> None:
    first, second = provider.connect(), provider.connect()
    first.send(ORDERS, [text("1"), text("2")])
    poller = first.poller(ORDERS, IN_PROGRESS)
    for number in range(2):
        take(poller, number)
    first.abandon()
    assert list(second.find_unowned(IN_PROGRESS)) == []
    (leftover,) = second.leftovers(None, at_start=True)
    assert leftover.claims == []
    leftover.forget()
    one, two = second.find_unowned(IN_PROGRESS)
    assert (one.destination, two.destination) == (ORDERS, ORDERS)
    adopted = second.adopt(one, 5, 0)
    assert adopted is not None
    second.settle([Settlement(two, give_back=True, delivery_count=0)])
    assert bodies(second) == ["2"]
    second.settle([Settlement(adopted)])
    assert bodies(second, "in-progress") == []


def test_a_message_put_into_an_in_progress_destination_goes_back_to_where_it_says(
    connection: LocalConnection, text: Text
) -> None:
    said = text("1")
    said.set_property("connector_origin_destination", "queue://orders")
    silly = text("2")
    silly.set_property("connector_origin_destination", "queue://../etc")
    connection.send(IN_PROGRESS, [said, silly])
    one, two = connection.find_unowned(IN_PROGRESS)
    connection.settle([Settlement(claim, give_back=True, delivery_count=1) for claim in (one, two)])
    assert bodies(connection) == ["1"]
    assert bodies(connection, "in-progress") == ["2"]
    assert take(connection.poller(ORDERS)).delivery_count == 1


def test_a_rejected_message_is_looked_at_once(
    connection: LocalConnection, text: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def compile_counting(selector: str) -> Selector:
        compiled = compile_selector(selector)
        return Selector(selector, compiled.identifiers, lambda m: asked.append(m) or compiled.matches(m))

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


def test_a_poller_with_a_selector_ignores_what_another_has_taken(
    connection: LocalConnection, text: Text
) -> None:
    connection.send(ORDERS, [text("1"), text("2")])
    selecting = connection.poller(ORDERS, selector="JMSPriority = 4")
    claim = take(connection.poller(ORDERS))
    take(selecting, 1)
    assert selecting.take(1, 2) is None
    connection.settle([Settlement(claim, give_back=True, delivery_count=1)])
    assert take(selecting, 3).delivery_count == 1


@pytest.mark.parametrize("by", ["a message", "a returned message", "the close"])
def test_waiting_in_one_thread_ends_from_another(provider: MemoryProvider, text: Text, by: str) -> None:
    waiting, other = provider.connect(), provider.connect()
    other.send(ORDERS, [text("1")])
    claim = take(other.poller(ORDERS))
    assert waiting.poller(ORDERS).take(1, 0) is None
    with ThreadPoolExecutor(1) as threads:
        begun = time.monotonic()
        ended = threads.submit(waiting.wait, 30)
        wait_for(lambda: waits_in("wait"))
        assert not ended.done()
        if by == "a message":
            other.send(ORDERS, [text("2")])
        elif by == "a returned message":
            other.settle([Settlement(claim, give_back=True, delivery_count=1)])
        else:
            waiting.close()
        ended.result(timeout=120)
        assert time.monotonic() - begun < 60


def test_a_message_for_another_destination_does_not_end_the_waiting(
    provider: MemoryProvider, text: Text
) -> None:
    waiting, other = provider.connect(), provider.connect()
    assert waiting.poller(ORDERS).take(1, 0) is None
    other.send(BILLS, [text("1")])
    begun = time.monotonic()
    waiting.wait(0.1)
    assert time.monotonic() - begun >= 0.1


@pytest.mark.parametrize("source", [ORDERS, AUDIT])
def test_a_message_delivered_too_often_is_put_aside(source: object, text: Text) -> None:
    connection = MemoryProvider(redelivery_limit=3).connect()
    poller = connection.poller(source)  # type: ignore[arg-type]
    connection.send(PRICES if source is AUDIT else ORDERS, [text("1")])
    for count in range(3):
        connection.settle([Settlement(take(poller, count), give_back=True, delivery_count=count + 1)])
    assert poller.take(1, 3) is None
    (destination,) = connection.destinations()
    info = connection.subscriptions()[0] if source is AUDIT else destination
    assert (info.waiting, info.in_progress, info.expired, info.error) == (0, 0, 0, 1)
    poller.close()
    if source is AUDIT:
        assert destination.error == 0
        assert connection.unsubscribe("audit").kept() == "1 in error"


def test_a_redelivery_limit_of_nothing_is_no_limit(text: Text) -> None:
    connection = MemoryProvider(redelivery_limit=0).connect()
    connection.send(ORDERS, [text("1")])
    assert take(connection.poller(ORDERS)).delivery_count == 0


def test_a_message_recovered_from_error_is_new_and_one_rejected_is_gone(text: Text) -> None:
    connection = MemoryProvider(redelivery_limit=1).connect()
    connection.send(ORDERS, [text("1"), text("2")])
    poller = connection.poller(ORDERS)
    connection.settle(
        [Settlement(take(poller, n), give_back=True, delivery_count=1) for n in range(2)],
    )
    assert poller.take(1, 2) is None
    in_error = parse_destination("orders~RECOVER-ERROR")
    seen = [(message.delivery_count, message.properties) for message in connection.browse(in_error)]
    assert seen == [(1, {"connector_attempts": 1})] * 2
    recover = connection.poller(in_error)
    connection.settle([Settlement(take(recover, 3))])
    assert bodies(connection) == ["1"]
    reject = connection.poller(parse_destination("orders~REJECT-ERROR"))
    connection.settle([Settlement(take(reject, 4))])
    assert bodies(connection, "orders~RECOVER-ERROR") == []
    claim = take(poller, 5)
    assert (claim.delivery_count, claim.destination) == (0, ORDERS)


def test_only_the_connections_of_its_origin_take_from_a_temporary_queue(
    provider: MemoryProvider, text: Text
) -> None:
    own, same, other = (provider.connect(origin=origin) for origin in ("a", "a", "b"))
    queue = own.temporary("queue")
    other.send(queue, [text("1")])
    with pytest.raises(DestinationError, match="only that connection consumes"):
        other.poller(queue)
    same.settle([Settlement(take(same.poller(queue)))])


def test_who_polls_a_temporary_queue_that_has_ended_is_told_so(provider: MemoryProvider) -> None:
    own, same = provider.connect(origin="a"), provider.connect(origin="a")
    poller = same.poller(own.temporary("queue"))
    own.close()
    with pytest.raises(ProviderError, match="has ended"):
        poller.take(1, 0)


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


def test_a_subscription_with_an_unacknowledged_message_is_not_made_anew(
    connection: LocalConnection, text: Text
) -> None:
    poller = connection.poller(AUDIT)
    connection.send(PRICES, [text("1"), text("2")])
    claim = take(poller)
    poller.close()
    wanted = TopicSubscription(PRICES, "audit", durable=True, shared=True, selector="JMSPriority > 4")
    with pytest.raises(SubscriptionError, match=r"has 1 message not acknowledged"):
        connection.poller(wanted)
    connection.settle([Settlement(claim)])
    connection.poller(wanted)


def test_a_backlog_that_is_lost_is_warned_about(
    connection: LocalConnection, text: Text, caplog: pytest.LogCaptureFixture
) -> None:
    connection.poller(AUDIT).close()
    connection.send(PRICES, [text("1"), text("2")])
    with caplog.at_level(logging.WARNING, "connector.memory"):
        connection.poller(TopicSubscription(PRICES, "audit", durable=True, shared=True, selector="TRUE"))
    (record,) = caplog.records
    assert record.getMessage() == "the messages of a subscription were removed with the subscription"
    assert vars(record)["lost"] == "2 waiting"


def test_two_subscriptions_of_one_topic_never_share_a_duplicate_key(
    connection: LocalConnection, text: Text
) -> None:
    names = ["a", "b", "a|b", "a\nb"]
    pollers = [
        connection.poller(TopicSubscription(PRICES, name, durable=True, shared=True)) for name in names
    ]
    connection.send(PRICES, [text("1")])
    keys = {take(poller, number).duplicate_key for number, poller in enumerate(pollers)}
    assert len(keys) == len(names)
    assert not any("\n" in key for key in keys)


@pytest.mark.parametrize(
    ("source", "in_progress"),
    [
        (PRICES, None),
        (parse_destination("orders~PROCESSING"), None),
        (parse_destination("orders~EXPIRED"), IN_PROGRESS),
        (ORDERS, PRICES),
        (AUDIT, IN_PROGRESS),
    ],
)
def test_what_cannot_be_polled_is_refused(
    connection: LocalConnection, source: object, in_progress: object
) -> None:
    with pytest.raises(CapabilityError):
        connection.poller(source, in_progress)  # type: ignore[arg-type]
    assert connection.subscriptions() == []
