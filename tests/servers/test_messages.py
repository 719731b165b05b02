"""Messages, errors and subscriptions on real brokers, with one Java in this process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.engine.connection import RemoteConnection
from connector.brokers.jms.factory import Factory
from connector.brokers.jms.urls import QPID
from connector.errors import MalformedData, ProviderError
from connector.messaging.claim import Claim
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.settlement import Settlement
from tests.servers.broker import PASSWORD, TOPIC, USER
from tests.servers.conftest import Broker
from tests.servers.rhea import receive_by_rhea, send_by_rhea
from tests.tables import Table
from tests.waiting import wait_for

ORDERS = parse_destination("queue://orders")
ARCHIVE = parse_destination("queue://archive")
PRICES = parse_destination(f"topic://{TOPIC}")
_NO_LIMIT = 1 << 40

Connect = Callable[..., RemoteConnection]


@pytest.fixture
def connect(broker: Broker, tmp_path: Path) -> Iterator[Connect]:
    """Connects to the empty broker. Options are those of the provider."""
    broker.empty()
    with contextlib.ExitStack() as opened:

        def connection(class_name: str = QPID, url: str = "", **options: Any) -> RemoteConnection:
            factory = Factory(class_name, url or broker.url, USER, PASSWORD)
            provider = broker.provider(factory=factory, state=tmp_path / "state", **options)
            return opened.enter_context(contextlib.closing(provider.connect()))

        yield connection


def take(poller: Poller, cycle: int = 1, sequence: int = 0) -> Claim:
    return wait_for(lambda: poller.take(cycle, sequence), what="a message")


def load(connection: RemoteConnection, claim: Claim) -> Message:
    return connection.access().open().load(claim.reference, _NO_LIMIT)


def java_session(connection: RemoteConnection) -> Any:
    """A session of Java, for messages that no connector sends."""
    return connection.broker.plain_session()  # type: ignore[attr-defined]


def test_all_message_types_arrive(connect: Connect) -> None:
    connection = connect()
    session = java_session(connection)
    producer = session.createProducer(session.createQueue("orders"))
    binary, mapped, stream = (
        session.createBytesMessage(),
        session.createMapMessage(),
        session.createStreamMessage(),
    )
    binary.writeBytes(b"\x00\xff")
    mapped.setInt("number", 7)
    mapped.setString("text", "x")
    mapped.setBytes("bytes", b"\x01")
    mapped.setDouble("double", 1.5)
    stream.writeBoolean(True)
    stream.writeLong(5)
    stream.writeString("s")
    for message in (session.createTextMessage("ä"), binary, mapped, stream, session.createMessage()):
        producer.send(message)
    poller = connection.poller(ORDERS)
    found = [load(connection, take(poller, sequence=number)) for number in range(5)]
    assert [one.message_class for one in found] == ["T", "B", "P", "S", "M"]
    assert (found[0].body, found[1].body, found[4].body) == ("ä".encode(), b"\x00\xff", b"")
    assert json.loads(found[2].body)["number"] == 7
    assert json.loads(found[3].body) == [True, 5, "s"]


def test_an_object_message_is_never_deserialised(connect: Connect) -> None:
    connection = connect()
    session = java_session(connection)
    jpype = connection.broker.jpype  # type: ignore[attr-defined]
    session.createProducer(session.createQueue("orders")).send(
        session.createObjectMessage(jpype.JClass("java.util.Date")())
    )
    poller = connection.poller(ORDERS)
    claim = take(poller)
    assert load(connection, claim).message_class == "O"
    error = parse_destination("queue://error")
    connection.settle([Settlement(claim, copy_to=error, properties={"connector_reason": "object"})])
    consumer = session.createConsumer(session.createQueue("error"))
    copy = consumer.receive(60_000)
    assert str(copy.getObject().getClass().getName()) == "java.util.Date"
    assert str(copy.getStringProperty("connector_reason")) == "object"


def test_a_body_beyond_the_limit_stays_in_java(connect: Connect) -> None:
    connection = connect(max_body=10)
    connection.send(ORDERS, [Message(b"x" * 11, "T"), Message(b"y" * 11, "B"), Message(b"z" * 10, "T")])
    poller = connection.poller(ORDERS)
    claims = [take(poller, sequence=number) for number in range(3)]
    assert [claim.reference.message.body for claim in claims[:2]] == [b"", b""]
    for claim in claims[:2]:
        with pytest.raises(MalformedData, match="11 bytes"):
            connection.access().open().load(claim.reference, 10)
    assert load(connection, claims[2]).body == b"z" * 10
    error = parse_destination("queue://error")
    connection.settle([Settlement(claim, copy_to=error) for claim in claims])
    copies = [message.body for message in connect().browse(error)]
    assert copies == [b"x" * 11, b"y" * 11, b"z" * 10]


def test_a_consumer_leaves_its_neighbour_all_but_one_fetch(connect: Connect) -> None:
    """The provider of these tests fetches 10 messages at most."""
    one, other = connect(), connect()
    one.send(ORDERS, [Message(str(number).encode(), "T") for number in range(100)])
    holding, poller = one.poller(ORDERS), other.poller(ORDERS)
    held = [take(holding, sequence=number) for number in range(5)]
    found = [take(poller, sequence=number) for number in range(100 - len(held) - 10)]
    holding.close()
    one.settle([Settlement(claim) for claim in held])
    found += [take(poller, sequence=number) for number in range(len(found), 100 - len(held))]
    assert len({claim.message_id for claim in [*held, *found]}) == 100


def test_a_missing_class_names_its_artifact(connect: Connect) -> None:
    with pytest.raises(ProviderError, match=r"add com\.rabbitmq.jms:rabbitmq-jms to packages"):
        connect(class_name="com.rabbitmq.jms.admin.RMQConnectionFactory")
    with pytest.raises(ProviderError, match=r"java\.lang\.String is no jakarta\.jms"):
        connect(class_name="java.lang.String", url="x")


def test_messages_without_ids_or_with_equal_ids_are_different(broker: Broker, connect: Connect) -> None:
    connection = connect()
    send_by_rhea(
        broker,
        "orders",
        "[{body: 'a'}, {body: 'b'}, {message_id: 'same', body: 'c'}, {message_id: 'same', body: 'd'}]",
    )
    poller = connection.poller(ORDERS)
    claims = [take(poller, sequence=number) for number in range(4)]
    assert [load(connection, claim).body for claim in claims] == [b"a", b"b", b"c", b"d"]
    assert len({claim.identity for claim in claims}) == 4  # type: ignore[attr-defined]
    connection.settle([Settlement(claim) for claim in claims])
    assert poller.claim(2, range(1)) == []


def test_the_content_encoding_of_amqp_is_a_property_of_a_message_of_bytes(
    broker: Broker, connect: Connect
) -> None:
    connection = connect()
    body = "body: rhea.message.data_section(Buffer.from('x'))"
    of_application = "application_properties: {content_encoding: 'br'}"
    send_by_rhea(
        broker,
        "orders",
        f"[{{{body}, content_encoding: 'gzip'}}, {{{body}}}, "
        f"{{{body}, content_encoding: 'gzip', {of_application}}}, {{body: 'x', content_encoding: 'gzip'}}]",
    )
    poller = connection.poller(ORDERS)
    claims = [take(poller, sequence=number) for number in range(4)]
    found = [load(connection, claim).properties.get("content_encoding") for claim in claims]
    assert found == ["gzip", None, "br", None]
    connection.settle([Settlement(claim) for claim in claims])


_UNDECODED = {
    "a class that does not fit": "{message_annotations: {'x-opt-jms-msg-type': rhea.types.wrap_byte(2)}, "
    "body: 'a'}",
    "an unknown class": "{message_annotations: {'x-opt-jms-msg-type': rhea.types.wrap_byte(99)}, body: 'a'}",
}


def test_a_message_that_the_client_library_refuses_stays_with_the_broker(
    broker: Broker, connect: Connect
) -> None:
    with Table() as table:
        for number, (name, fields) in enumerate(_UNDECODED.items()):
            with table.row(name):
                connection, queue = connect(), f"orders{number}"
                send_by_rhea(broker, queue, f"[{fields}, {{body: 'after'}}]")
                claim = take(connection.poller(parse_destination(f"queue://{queue}")))
                assert load(connection, claim).body == b"after"
                connection.settle([Settlement(claim, ARCHIVE)])
                connection.close()
                assert receive_by_rhea(broker, queue)
