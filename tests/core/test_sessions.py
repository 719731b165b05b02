"""Sessions and connections: what they send, what they refuse, how they start, stop and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connector.core.connection import CoreConnection
from connector.errors import (
    CapabilityError,
    DestinationError,
    MalformedData,
    ProviderError,
    SelectorError,
    SessionStateError,
    UnknownDestination,
)
from connector.messaging import NON_PERSISTENT, AcknowledgeMode, Message, ReceivedMessage
from connector.messaging.client import Body
from connector.messaging.message import PropertyValue
from connector.stores.dropbox.provider import DropboxProvider
from tests.core.conftest import Connect, Obstacle, fill, next_of, values
from tests.waiting import beside, wait_for, waits_in

AUTO, DUPS_OK, CLIENT, INDIVIDUAL, TRANSACTED = AcknowledgeMode


def received(connection: CoreConnection, queue: str = "orders") -> ReceivedMessage:
    with connection.session() as session:
        return next_of(session.consumer(queue))


# -- producers -------------------------------------------------------------------------------------


def test_a_body_arrives_as_it_was_sent(connection: CoreConnection) -> None:
    bodies: list[Body] = [None, "text \u20ac", b"\x00\xff", {"a": [1, 2.5, None]}, [1, "two", b"\x00"]]
    connection.session().send_many("orders", bodies)
    assert [received(connection).value for _ in bodies] == bodies


def test_headers_and_properties_arrive_as_they_were_sent(connection: CoreConnection) -> None:
    producer = connection.session().producer("orders", priority=7)
    headers: dict[str, Any] = {"type": "ORDER", "correlation_id": "c-1", "reply_to": "queue://replies"}
    properties: dict[str, PropertyValue] = {"region": "EU", "urgent": True, "amount": 3}
    identity = producer.send("1", properties=properties, **headers)
    message = received(connection)
    assert {name: getattr(message, name) for name in headers} == headers
    assert {name: message.properties[name] for name in properties} == properties
    assert (message.message_id, message.priority, message.expiration) == (identity, 7, 0)
    assert message.destination == "queue://orders"
    producer.send("2", priority=1)  # what is said with a message counts more than what the producer says
    assert received(connection).priority == 1
    sent = Message(b"1", delivery_mode=NON_PERSISTENT, priority=8, type="T", correlation_id="c")
    sent.set_property("region", "EU")
    connection.session().producer("orders").send(sent, properties={"more": 1})
    arrived = received(connection)
    assert (arrived.body, arrived.priority, arrived.type, arrived.correlation_id) == (b"1", 8, "T", "c")
    assert (arrived.properties["region"], arrived.properties["more"]) == ("EU", 1)
    assert (sent.message_id, sent.properties) == (None, {"region": "EU"}), "it is not changed"


def test_a_property_that_no_selector_can_ask_for_or_that_is_the_providers_own_is_refused(
    connection: CoreConnection,
) -> None:
    session = connection.session()
    for name in ("a b", "null", "JMSXDeliveryCount", "JMS_dropboxmq_hdr", "JMSPriority", ""):
        wrong = Message(delivery_mode=NON_PERSISTENT, properties={name: 1}, property_types={name: "int"})
        with pytest.raises(ValueError, match="property"):
            session.producer("orders").send("1", properties={name: 1})
        with pytest.raises(ValueError, match="property"):
            session.send_many("orders", ["1", wrong])
    assert session.consumer("orders").receive_nowait() is None


def test_what_a_foreign_program_sent_is_sent_on_whatever_its_properties_are_called(
    on_disk: CoreConnection, tmp_path: Path
) -> None:
    session = on_disk.session()
    orders = session.consumer("orders")
    name = "4.1795271935272145-x1.T.....a%20bI=1&JMSXDeliveryCountI=3&JMSXDeliveryCountS=x&nullI=2"
    (tmp_path / "orders/incoming/target" / name).write_text("foreign")
    session.producer("bills").send(next_of(orders), properties={"more": 1})
    arrived = received(on_disk, "bills")
    assert arrived.properties == {"a b": 1, "null": 2, "more": 1}
    assert (arrived.value, arrived.delivery_count) == ("foreign", 1)


def test_a_producer_sends_to_its_destination_only_or_asks_for_one(connection: CoreConnection) -> None:
    session = connection.session()
    with pytest.raises(DestinationError, match="sends to queue://orders"):
        session.producer("orders").send("1", destination="bills")
    with session.producer() as producer:
        with pytest.raises(DestinationError, match="no destination"):
            producer.send("2")
        producer.send("3", destination="orders")
    assert received(connection).value == "3"
    with pytest.raises(SessionStateError, match="closed"):
        producer.send("4", destination="orders")


def test_what_no_message_carries_and_no_consumer_of_a_queue_knows_is_refused(
    connection: CoreConnection,
) -> None:
    session = connection.session()
    refused: list[tuple[Callable[[], object], type[Exception], str]] = [
        (partial(session.producer, "orders", priority=10), ValueError, "priority"),
        (partial(session.producer, "orders", time_to_live=-1), ValueError, "time to live"),
        (partial(session.producer, "orders", delivery_mode=3), ValueError, "mode"),
        (partial(session.send, "orders", object()), TypeError, "cannot carry a object"),  # type: ignore[arg-type]
        (partial(session.consumer, "orders", "region ="), SelectorError, "found the end"),
        (partial(session.consumer, "orders", no_local=True), CapabilityError, "only a topic"),
    ]
    for call, error, words in refused:
        with pytest.raises(error, match=words):
            call()
    assert session.consumer("orders").receive_nowait() is None


# -- consumers -------------------------------------------------------------------------------------


def test_receive_waits_for_a_message_that_comes_or_gives_up_after_its_timeout(
    connection: CoreConnection,
) -> None:
    consumer = connection.session().consumer("orders")
    begun = time.monotonic()
    assert consumer.receive(0.2) is None
    assert time.monotonic() - begun >= 0.2
    waiting = beside(next_of, consumer)
    wait_for(lambda: waits_in("receive"))
    connection.session().send("orders", "1")
    assert waiting.result(120).value == "1"


def test_a_consumer_and_a_browser_know_selectors_and_an_empty_one_is_none(
    connection: CoreConnection,
) -> None:
    session = connection.session()
    for number in range(4):
        session.producer("orders", priority=number).send(str(number), properties={"n": number})
    for selector, expected in (("", "3210"), ("  ", "3210"), ("n > 1", "32")):
        assert [message.value for message in session.browser("orders", selector)] == list(expected)
    assert values(session.consumer("orders", "n < 1")) == ["0"]
    assert values(session.consumer("orders", "\n")) == ["3", "2", "1"]


@pytest.mark.parametrize("mode", [AUTO, INDIVIDUAL, DUPS_OK])
def test_a_message_that_cannot_be_read_is_an_error_once_and_stays(
    on_disk: CoreConnection, tmp_path: Path, mode: AcknowledgeMode
) -> None:
    fill(on_disk, "good")
    (tmp_path / "orders/incoming/target/9.1140429201295000-1.T.no-number").write_bytes(b"bad")
    with on_disk.session(mode) as session:
        consumer = session.consumer("orders")
        with pytest.raises(MalformedData):
            consumer.receive_nowait()
        good = next_of(consumer)
        assert good.value == "good"
        good.acknowledge()
        assert consumer.receive_nowait() is None
    with on_disk.session() as other, pytest.raises(MalformedData):
        other.consumer("orders").receive_nowait()


def test_a_message_that_cannot_be_read_goes_with_its_transaction(
    on_disk: CoreConnection, tmp_path: Path
) -> None:
    session = on_disk.session(TRANSACTED)
    consumer = session.consumer("orders")
    (tmp_path / "orders/incoming/target/9.1140429201295000-1.T.no-number").write_bytes(b"bad")
    for end in (session.rollback, session.commit):
        with pytest.raises(MalformedData):
            consumer.receive(120)
        end()
    assert consumer.receive_nowait() is None


def test_a_message_that_is_taken_away_by_hand_is_not_delivered(
    on_disk: CoreConnection, tmp_path: Path
) -> None:
    fill(on_disk, "1", "2")
    consumer = on_disk.session(CLIENT).consumer("orders")
    assert consumer.receive_nowait() is not None
    for file in (tmp_path / "orders/incoming/target").iterdir():
        file.unlink()
    assert consumer.receive_nowait() is None


# -- temporary destinations ------------------------------------------------------------------------


def test_a_temporary_queue_ends_with_its_connection_not_with_the_session(connect: Connect) -> None:
    """Or when it is deleted."""
    connection, other = connect(), connect().session()
    with connection.session() as session:
        deleted, replies = session.temporary_queue(), session.temporary_queue()
        assert list(session.browser(deleted)) == []
        session.delete_temporary(deleted)
        with pytest.raises(UnknownDestination):
            list(session.browser(deleted))
        assert not session.temporary_topic().is_queue
    other.send(replies, "1")
    connection.close()
    for queue in (deleted, replies):
        with pytest.raises(UnknownDestination):
            other.send(queue, "2")


# -- states ----------------------------------------------------------------------------------------


def test_only_transacted_sessions_commit_and_roll_back_and_only_others_recover(
    connection: CoreConnection,
) -> None:
    for mode in AcknowledgeMode:
        session = connection.session(mode)
        assert session.transacted is (mode is TRANSACTED)
        wrong = [session.recover] if session.transacted else [session.commit, session.rollback]
        for operation in wrong:
            with pytest.raises(SessionStateError, match="rollback" if session.transacted else "TRANSACTED"):
                operation()


def test_what_is_closed_does_nothing_any_more(connection: CoreConnection) -> None:
    for mode in AcknowledgeMode:
        session = connection.session(mode)
        consumer, producer = session.consumer("orders"), session.producer("orders")
        session.close()
        session.close()
        operations: list[Callable[[], object]] = [
            *(partial(session.send, "orders", "1"), partial(producer.send, "1")),
            *(partial(session.consumer, "orders"), partial(session.browser, "orders")),
            *(partial(session.unsubscribe, "audit"), partial(consumer.listen, print)),
            *(session.temporary_queue, consumer.receive_nowait),
            *(session.commit, session.rollback, session.recover),
        ]
        for operation in operations:
            with pytest.raises(SessionStateError):
                operation()
    consumer = connection.session().consumer("orders")
    consumer.close()
    consumer.close()
    with pytest.raises(SessionStateError, match="closed"):
        consumer.receive_nowait()
    session = connection.session()
    connection.close()
    connection.close()
    for operation in (partial(session.send, "orders", "1"), connection.session, connection.start):
        with pytest.raises(SessionStateError):
            operation()


@pytest.mark.parametrize("closes", ["consumer", "session", "connection"])
def test_a_receive_that_waits_ends_with_none_when_somebody_closes(connect: Connect, closes: str) -> None:
    connection = connect()
    session = connection.session()
    consumer = session.consumer("orders")
    waiting = beside(consumer.receive)
    wait_for(lambda: waits_in("receive"))
    {"consumer": consumer.close, "session": session.close, "connection": connection.close}[closes]()
    assert waiting.result(120) is None


@pytest.mark.parametrize("works", [False, True], ids=["waiting", "working"])
def test_a_loop_over_messages_ends_when_somebody_closes(connection: CoreConnection, works: bool) -> None:
    """Whether it waits, or works on a message, at that moment."""
    session = connection.session()
    session.send_many("orders", ["1", "2"])
    begun = threading.Event()

    def work() -> None:
        for _ in session.consumer("orders"):
            begun.set()
            if works:
                wait_for(lambda: session.closing)

    looping = beside(work)
    assert begun.wait(120)
    if not works:
        wait_for(lambda: waits_in("receive"))
    session.close()
    assert looping.exception(120) is None


def test_close_from_many_threads_closes_once(connect: Connect) -> None:
    connection = connect()
    session = connection.session(CLIENT)
    session.send("orders", "1")
    assert session.consumer("orders").receive_nowait() is not None
    closing = [beside(session.close) for _ in range(8)]
    assert [one.exception(120) for one in closing] == [None] * 8
    assert received(connection).delivery_count == 2


def test_sessions_of_one_connection_work_in_threads(connection: CoreConnection) -> None:
    numbers = [str(number) for number in range(200)]
    fill(connection, *numbers)
    seen: list[str] = []

    def work() -> None:
        with connection.session() as session:
            consumer = session.consumer("orders")
            while len(seen) < 200:
                seen.extend(message.value for message in consumer.messages(0.05))

    working = [beside(work) for _ in range(4)]
    assert [one.exception(120) for one in working] == [None] * 4
    assert sorted(seen, key=int) == numbers


def test_a_provider_that_is_out_of_reach_is_an_error_of_a_receive_that_waits(tmp_path: Path) -> None:
    connection = CoreConnection(DropboxProvider(tmp_path / "root", create=True, durable=False))
    consumer = connection.session().consumer("orders")
    (tmp_path / "root").rename(tmp_path / "moved")
    for seconds in (120, 0):
        with pytest.raises(ProviderError):
            consumer.receive(seconds)
    (tmp_path / "moved").rename(tmp_path / "root")
    assert consumer.receive_nowait() is None
    connection.close()


def test_a_session_whose_provider_fails_at_its_end_leaves_the_rest_to_others(tmp_path: Path) -> None:
    connection = CoreConnection(DropboxProvider(tmp_path, create=True, durable=False))
    fill(connection, "1")
    session = connection.session(CLIENT)
    assert session.consumer("orders").receive_nowait() is not None
    target = Obstacle(tmp_path / "orders/incoming/target")
    target.put()
    with pytest.raises(ProviderError):
        session.close()
    target.remove()
    connection.close()
    with CoreConnection(DropboxProvider(tmp_path, create=True, durable=False)) as other:
        assert received(other).delivery_count == 2
