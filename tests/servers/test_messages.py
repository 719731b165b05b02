"""Messages, errors and subscriptions on real brokers, with one Java in this process."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connector.core.remote.connection import RemoteConnection
from connector.errors import (
    ClientIdError,
    ConnectorError,
    DestinationError,
    MalformedData,
    ProviderError,
    SelectorError,
    SubscriptionError,
)
from connector.messaging.claim import Claim
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Poller
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.providers.jms.client import Factory, JmsClient
from connector.providers.jms.provider import JavaSettings, JmsProvider
from connector.providers.jms.urls import QPID, for_browsers, with_options
from tests.servers.broker import PASSWORD, TOPIC, USER
from tests.servers.conftest import CLIENT, Broker, resolved

ORDERS = parse_destination("queue://orders")
PRICES = parse_destination(f"topic://{TOPIC}")
_NO_LIMIT = 1 << 40

Connect = Callable[..., RemoteConnection]


@pytest.fixture
def make(broker: Broker, tmp_path: Path) -> Callable[..., JmsProvider]:
    """Makes a provider on the empty broker. Arguments are those of the factory, and of the provider."""
    broker.empty()

    def provider(
        *,
        class_name: str = QPID,
        url: str = "",
        login: tuple[str | None, str | None] | None = None,
        **options: Any,
    ) -> JmsProvider:
        if login is None:
            login = (USER, PASSWORD) if broker.kind == "broker_j" else (None, None)
        plain = url or f"amqp://127.0.0.1:{broker.port}"
        java = JavaSettings((), resolved("client", CLIENT), ("-Xmx256m",))
        return JmsProvider(
            Factory(
                class_name,
                with_options(QPID, plain, 10),
                *login,
                browsing_url=for_browsers(QPID, plain),
            ),
            java,
            tmp_path / "state",
            **options,
        )

    return provider


@pytest.fixture
def connect(make: Callable[..., JmsProvider]) -> Iterator[Connect]:
    with contextlib.ExitStack() as opened:

        def connection(client_id: str = "", **options: Any) -> RemoteConnection:
            return opened.enter_context(contextlib.closing(make(**options).connect(client_id=client_id)))

        yield connection


def take(poller: Poller, cycle: int = 1, sequence: int = 0) -> Claim:
    deadline = time.monotonic() + 10
    while (claim := poller.take(cycle, sequence)) is None:
        assert time.monotonic() < deadline
    return claim


def load(connection: RemoteConnection, claim: Claim) -> Message:
    return connection.access().open().load(claim.reference, _NO_LIMIT)


def java_session(connection: RemoteConnection) -> Any:
    """The Java session of a connection, for messages that no connector sends."""
    java = connection.broker.java  # type: ignore[attr-defined]
    return java.createSession(False, 1)


def test_all_message_types_arrive(connect: Connect) -> None:
    connection = connect()
    session = java_session(connection)
    producer = session.createProducer(session.createQueue("orders"))
    producer.send(session.createTextMessage("ä"))
    binary = session.createBytesMessage()
    binary.writeBytes(b"\x00\xff")
    producer.send(binary)
    mapped = session.createMapMessage()
    mapped.setInt("number", 7)
    mapped.setString("text", "x")
    mapped.setBytes("bytes", b"\x01")
    mapped.setDouble("double", 1.5)
    producer.send(mapped)
    stream = session.createStreamMessage()
    stream.writeBoolean(True)
    stream.writeLong(5)
    stream.writeString("s")
    producer.send(stream)
    producer.send(session.createMessage())
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
    copy = consumer.receive(5000)
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


def test_headers_and_properties_of_every_type_arrive(connect: Connect) -> None:
    connection = connect()
    sent = Message(b"x", "T", type="T1", correlation_id="c", priority=8, reply_to="topic://prices")
    values = {"boolean": True, "byte": -1, "short": 2, "int": 3, "long": 4, "float": 0.5, "double": 0.25,
              "string": "é"}  # fmt: skip
    for kind, value in values.items():
        sent.set_property(f"p_{kind}", value, kind)
    sent.set_property("JMSXGroupID", "g")
    sent.expiration = time.time_ns() // 1_000_000 + 60_000
    connection.send(ORDERS, [sent])
    got = load(connection, take(connection.poller(ORDERS)))
    assert {kind: got.properties[f"p_{kind}"] for kind in values} == values
    assert all(got.property_types[f"p_{kind}"] == kind for kind in values)
    assert (got.type, got.correlation_id, got.priority, got.reply_to) == ("T1", "c", 8, "topic://prices")
    assert got.properties["JMSXGroupID"] == "g"
    assert abs(got.expiration - sent.expiration) < 5000
    assert abs(got.timestamp - time.time() * 1000) < 60_000
    assert got.message_id


def test_a_copy_keeps_what_the_client_refuses_to_set(connect: Connect) -> None:
    connection = connect()
    message = Message(b"x", "T")
    message.set_property("strange-name", "v")
    connection.send(ORDERS, [message])
    got = load(connection, take(connection.poller(ORDERS)))
    assert [value for name, value in got.properties.items() if "strange" in name] == ["v"]


def test_the_selector_is_the_brokers(connect: Connect) -> None:
    connection = connect()
    for number in (1, 2, 3):
        message = Message(str(number).encode(), "T")
        message.set_property("n", number)
        connection.send(ORDERS, [message])
    claim = take(connection.poller(ORDERS, selector="n BETWEEN 2 AND 2"))
    assert load(connection, claim).body == b"2"
    with pytest.raises(SelectorError) as caught:
        connection.poller(ORDERS, selector="n = = 2")
    assert "queue://orders" in str(caught.value)


@pytest.mark.parametrize("shared", [False, True])
def test_a_durable_subscription_keeps_messages_until_it_is_removed(connect: Connect, shared: bool) -> None:
    client_id = "" if shared else "billing"
    wanted = TopicSubscription(PRICES, "own", client_id, durable=True, shared=shared)
    connection = connect(client_id)
    connection.poller(wanted).close()
    connection.send(PRICES, [Message(b"1", "T")])
    connection.close()
    again = connect(client_id)
    poller = again.poller(wanted)
    claim = take(poller)
    assert load(again, claim).body == b"1"
    again.settle([Settlement(claim)])
    poller.close()
    again.unsubscribe("own", client_id)
    with pytest.raises(SubscriptionError):
        again.unsubscribe("own", client_id)


def test_consumers_of_a_shared_subscription_share_its_messages(connect: Connect) -> None:
    wanted = TopicSubscription(PRICES, "own", durable=True, shared=True)
    one, other = connect(), connect()
    pollers = [(one, one.poller(wanted)), (other, other.poller(wanted))]
    one.send(PRICES, [Message(str(number).encode(), "T") for number in range(20)])
    found: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(found) < 20 and time.monotonic() < deadline:
        for connection, poller in pollers:
            claims = poller.claim(len(found), range(5))
            found += [load(connection, claim).body for claim in claims]
            if claims:
                connection.settle([Settlement(claim) for claim in claims])
    assert sorted(map(int, found)) == list(range(20))


def test_a_client_id_is_held_once(connect: Connect) -> None:
    connect("billing")
    with pytest.raises(ClientIdError, match="billing"):
        connect("billing")


def test_a_missing_class_names_its_artifact(connect: Connect) -> None:
    with pytest.raises(ProviderError, match=r"add com\.rabbitmq.jms:rabbitmq-jms to packages"):
        connect(class_name="com.rabbitmq.jms.admin.RMQConnectionFactory")
    with pytest.raises(ProviderError, match=r"java\.lang\.String is no jakarta\.jms"):
        connect(class_name="java.lang.String", url="x")


@pytest.mark.parametrize("broker", ["broker_j"], indirect=True)  # Artemis takes every login here
def test_a_refused_login_says_so_without_the_password(make: Callable[..., JmsProvider]) -> None:
    with pytest.raises(ProviderError, match="refuses the login of user 'guest'") as caught:
        make(login=(USER, "hush-hush")).connect()
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broker_out_of_reach_says_why(connect: Connect) -> None:
    with pytest.raises(ProviderError, match=r"the broker cannot be reached: .*refused"):
        connect(url="amqp://127.0.0.1:1?jms.password=hush")


@pytest.mark.parametrize("broker", ["artemis"], indirect=True)
def test_an_unknown_certificate_names_the_options_of_the_client(connect: Connect, tmp_path: Path) -> None:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1",
         "-keyout", "key.pem", "-out", "certificate.pem"], cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                context.wrap_socket(server.accept()[0], server_side=True)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ProviderError) as caught:
            connect(url=f"amqps://localhost:{server.getsockname()[1]}")
    assert "PKIX" in str(caught.value)
    assert "transport.trustStoreLocation" in str(caught.value)


@pytest.mark.parametrize("broker", ["artemis"], indirect=True)
def test_a_full_queue_refuses(broker: Broker, connect: Connect) -> None:
    connection = connect(url=f"amqp://127.0.0.1:{broker.port}?jms.sendTimeout=1000")
    full = parse_destination("queue://full")
    messages = [Message(b"x" * 1000, "T") for _ in range(50)]
    with pytest.raises(ConnectorError):
        connection.send(full, messages)


def test_messages_without_ids_or_with_equal_ids_are_different(broker: Broker, connect: Connect) -> None:
    connection = connect()
    send_by_rhea(
        broker,
        "orders",
        [{"body": "a"}, {"body": "b"}, {"id": "same", "body": "c"}, {"id": "same", "body": "d"}],
    )
    poller = connection.poller(ORDERS)
    claims = [take(poller, sequence=number) for number in range(4)]
    assert [load(connection, claim).body for claim in claims] == [b"a", b"b", b"c", b"d"]
    assert len({claim.identity for claim in claims}) == 4  # type: ignore[attr-defined]
    connection.settle([Settlement(claim) for claim in claims])
    assert poller.claim(2, range(1)) == []


def test_a_topic_cannot_be_browsed(connect: Connect) -> None:
    with pytest.raises((DestinationError, ConnectorError)):
        list(connect().browse(PRICES))


_RHEA = """
const rhea = require('rhea');
const [port, user, password, queue, messages] = process.argv.slice(1);
const container = rhea.create_container();
const pending = JSON.parse(messages);
let accepted = 0;
const connection = container.connect({port: Number(port), username: user, password: password});
connection.open_sender({target: {address: queue, capabilities: ['queue']}});
container.once('sendable', (context) => {
    for (const one of pending) context.sender.send({message_id: one.id, body: one.body, durable: true});
});
container.on('accepted', () => { accepted += 1; if (accepted === pending.length) connection.close(); });
"""


def send_by_rhea(broker: Broker, queue: str, messages: list[dict[str, str]]) -> None:
    """Sends with rhea, a client of AMQP that sets no ids of its own."""
    from connector.jars.locked import cache_directory

    directory = cache_directory().parent / "tests" / "rhea"
    if not (directory / "node_modules" / "rhea").is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(directory), "rhea@3.0.5"], check=True)
    arguments = [str(broker.port), USER, PASSWORD, queue, json.dumps(messages)]
    subprocess.run(["node", "-e", _RHEA, *arguments], cwd=directory, check=True, timeout=60)


def test_the_survey_leaves_no_queue_behind(broker: Broker, make: Callable[..., JmsProvider]) -> None:
    found = {one.name: one for one in make(commit_queue=None).survey("demo")}
    assert found["transactions"].able
    assert found["shared subscriptions"].able
    assert isinstance(make().client(), JmsClient)
