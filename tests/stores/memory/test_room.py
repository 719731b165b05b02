"""Bounded memory: a sender waits for room, and never for ever (JBoss Messaging Core, 3.1)."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from connector.core.connection import CoreConnection
from connector.errors import ProviderError
from connector.messaging.client import AcknowledgeMode
from connector.messaging.destination import parse_destination
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.connection import LocalConnection
from connector.stores.memory.provider import MemoryProvider
from tests.stores.memory.conftest import BILLS, ORDERS, PRICES, bodies, text
from tests.waiting import wait_for, waits_in

ROOM = 20_000
BIG = "x" * 12_000


@pytest.fixture
def small() -> MemoryProvider:
    """Has room for one big message, and waits for a tenth of a second."""
    return MemoryProvider(max_bytes=ROOM, send_timeout=0.1)


@pytest.fixture
def connection(small: MemoryProvider) -> LocalConnection:
    return small.connect()


def drain(connection: LocalConnection) -> int:
    poller = connection.poller(ORDERS)
    count = 0
    while (claim := poller.take(1, count)) is not None:
        connection.settle([Settlement(claim)])
        count += 1
    return count


def test_a_message_that_never_fits_is_refused_at_once() -> None:
    connection = MemoryProvider(max_bytes=ROOM, send_timeout=1e6).connect()
    for messages in ([text("x" * ROOM)], [text(BIG), text(BIG)]):
        with pytest.raises(ProviderError, match=rf"queue://orders.*max_bytes \({ROOM}\).*Nothing was sent"):
            connection.send(ORDERS, messages)
    access = connection.access().open()
    access.prepare(ORDERS, text(BIG), "1")
    with pytest.raises(ProviderError, match=r"this transaction alone.*commit earlier"):
        access.prepare(ORDERS, text(BIG), "2")


def test_a_sender_waits_in_vain_for_as_long_as_it_was_told(connection: LocalConnection) -> None:
    connection.send(ORDERS, [text(BIG)])
    begun = time.monotonic()
    with pytest.raises(ProviderError, match=r"queue://orders.*start a consumer.*Nothing was sent"):
        connection.send(ORDERS, [text(BIG)])
    assert time.monotonic() - begun >= 0.1
    assert len(bodies(connection)) == 1


def test_a_sender_goes_on_as_soon_as_there_is_room() -> None:
    provider = MemoryProvider(max_bytes=ROOM, send_timeout=240)
    sender, consumer = provider.connect(), provider.connect()
    sender.send(ORDERS, [text(BIG + "1")])
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(sender.send, ORDERS, [text(BIG + "2")])
        wait_for(lambda: waits_in("wait_for_room"))
        assert not sending.done()
        claim = consumer.poller(ORDERS).take(1, 0)
        assert claim is not None
        time.sleep(0.05)  # a wrong wake-up shows only in time
        assert not sending.done(), "a claim is no room yet"
        consumer.settle([Settlement(claim)])
        assert len(sending.result(timeout=240)) == 1
    assert bodies(consumer) == [BIG.encode() + b"2"]


def test_a_sender_that_waits_ends_with_its_connection() -> None:
    connection = MemoryProvider(max_bytes=ROOM, send_timeout=240).connect()
    connection.send(ORDERS, [text(BIG)])
    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(connection.send, ORDERS, [text(BIG)])
        wait_for(lambda: waits_in("wait_for_room"))
        connection.close()
        with pytest.raises(ProviderError, match="closed"):
            sending.result(timeout=240)


def test_who_passes_messages_on_does_not_wait_for_itself(
    small: MemoryProvider, connection: LocalConnection
) -> None:
    connection.send(ORDERS, [text(BIG)])
    with CoreConnection(small) as messaging, messaging.session(AcknowledgeMode.TRANSACTED) as session:
        got = session.consumer(ORDERS).receive_nowait()
        assert got is not None
        session.send(BILLS, got)
    assert bodies(connection, BILLS) == [BIG.encode()]


def test_preparing_again_under_one_key_needs_no_more_room(connection: LocalConnection) -> None:
    access = connection.access().open()
    for body in ("1", "2", "3"):
        prepared = access.prepare(ORDERS, text(body * 12_000), "key")
    connection.settle([], sends=[prepared])
    assert bodies(connection) == [b"3" * 12_000]


def test_expired_messages_make_room_for_others(connection: LocalConnection) -> None:
    connection.send(ORDERS, [text(BIG, expiration=1)])
    assert drain(connection) == 0
    expired = parse_destination("queue://orders~EXPIRED")
    assert len(list(connection.browse(expired))) == 1
    connection.send(ORDERS, [text(BIG + "new")])
    assert bodies(connection) == [BIG.encode() + b"new"]
    assert list(connection.browse(expired)) == []


def test_an_expired_message_in_a_queue_is_not_removed_for_room(connection: LocalConnection) -> None:
    connection.send(ORDERS, [text(BIG, expiration=1)])
    assert drain(connection) == 0
    claim = connection.poller(parse_destination("queue://orders~EXPIRED")).take(1, 0)
    assert claim is not None
    connection.settle([Settlement(claim, copy_to=BILLS)])
    with pytest.raises(ProviderError, match="start a consumer"):
        connection.send(ORDERS, [text(BIG)])
    assert bodies(connection, BILLS) == [BIG.encode()]


def test_many_subscriptions_share_one_body(small: MemoryProvider, connection: LocalConnection) -> None:
    sender = small.connect()
    pollers = [connection.poller(TopicSubscription(PRICES)) for _ in range(5)]
    connection.send(PRICES, [text(BIG)])
    for number, poller in enumerate(pollers):
        claim = poller.take(1, number)
        assert claim is not None
        assert connection.access().open().load(claim.reference, ROOM).body == BIG.encode()
        if number == 4:
            with pytest.raises(ProviderError):
                sender.send(ORDERS, [text(BIG)])
        connection.settle([Settlement(claim)])
    sender.send(ORDERS, [text(BIG)])


def test_what_nobody_subscribes_to_needs_no_room(connection: LocalConnection) -> None:
    connection.send(ORDERS, [text(BIG)])
    for _ in range(5):
        connection.send(PRICES, [text(BIG)])


def test_all_room_is_there_again_when_everything_is_dealt_with() -> None:
    connection = MemoryProvider(max_bytes=ROOM, send_timeout=0.0).connect()
    access = connection.access().open()
    for _ in range(30):  # each way that a message goes; a leak of a tenth would be seen
        connection.send(ORDERS, [text("x" * 2_000), text("x" * 2_000, expiration=1)])
        drain(connection)
        connection.settle([], discards=[access.prepare(ORDERS, text("x" * 2_000), "key")])
        subscription = connection.poller(TopicSubscription(PRICES))
        connection.send(PRICES, [text("x" * 2_000)])
        subscription.close()
        temporary = connection.temporary("queue")
        connection.send(temporary, [text("x" * 2_000)])
        connection.delete_temporary(temporary)
        poller = connection.poller(parse_destination("queue://orders~EXPIRED"))
        claim = poller.take(1, 0)
        assert claim is not None
        connection.settle([Settlement(claim, copy_to=ORDERS, properties={"connector_reason": "r" * 500})])
        assert drain(connection) == 0  # it had expired
    connection.send(ORDERS, [text("x" * (ROOM - 2_000))])
