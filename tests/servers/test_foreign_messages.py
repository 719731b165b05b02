"""Messages of foreign senders on real brokers: at worst such a message fails, and holds up no other."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from tests.runs import customer
from tests.servers.rhea import send_by_rhea

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_PROPERTIES: Final = (
    *("ubyte(200)", "uint(4000000000)", "ulong(5)", "long(-5)", "short(-5)", "double(NaN)"),
    *("float(-Infinity)", "symbol('s')", "uuid(Buffer.alloc(16, 7))", "binary(Buffer.from([1, 2, 255]))"),
    *("timestamp(12345)", "char(65)", "list([1, 2])", "map({x: 1})"),
)
"""AMQP types of a property. JMS can name some of them."""

_ODD: Final = [
    *(f"application_properties: {{p: t.wrap_{value}}}" for value in _PROPERTIES),
    "application_properties: {p: null}",
    "application_properties: {'a b': 1, 'select': 'x', 'ä-ö': true, 'JMSFoo': 1, 'JMSXFoo': 'y', '1 a-b': 2}",
    "application_properties: {'': 'x', 'NOT': 3, 'connector_property_$FF': 1, h: '\\udc00'}",
    "application_properties: {JMSType: 'a', JMSReplyTo: 'b', JMSPriority: 'c', JMSXGroupSeq: 'd'}",
    "application_properties: {connector_message_id: 5, connector_begun: 'x', connector_attempts: 'y'}",
    "application_properties: {connector_expiration: true, JMSXDeliveryCount: 'many', JMSXGroupSeq: 'x'}",
    "application_properties: {connector_timestamp: t.wrap_long(-1), connector_message_id: ''}",
    "application_properties: {connector_held_for: 'x', connector_digest: 'y', connector_owner: 'z'}",
    "application_properties: {_AMQ_LVQ_NAME: 'l', _AMQ_SCHED_DELIVERY: t.wrap_long(99999999999999)}",
    "application_properties: {_AMQ_DUPL_ID: 'same'}",
    "application_properties: {JMS_AMQP_TTL: 1, JMS_AMQP_TYPED_ENCODING: true}",
    "correlation_id: t.wrap_binary(Buffer.from([1, 255]))",
    "correlation_id: t.wrap_uuid(Buffer.alloc(16, 9))",
    "correlation_id: t.wrap_ulong(77)",
    "correlation_id: 'ID:AMQP_ULONG:zz'",
    "message_id: t.wrap_binary(Buffer.from([1, 255]))",
    "message_id: ''",
    "reply_to: 'amqp://other/a queue?x=y'",
    "reply_to: ''",
    "reply_to: 'a/../b', message_annotations: {'x-opt-jms-reply-to': t.wrap_byte(9)}",
    "subject: 'a\\u0000b\\'\\u2028%\\n'",
    "priority: 200",
    "creation_time: 2534023008000000, absolute_expiry_time: 9223372036854",
    "group_id: '', group_sequence: 4000000000",
    "user_id: Buffer.from([255, 254])",
    "content_type: 'x/y', content_encoding: 'gzip'",
    "message_annotations: {'x-opt-foo': 'bar', 'x-opt-jms-dest': t.wrap_byte(77)}",
]
"""Fields of messages with a good body."""

_BODIES: Final = [
    *(
        f"body: {body}, message_annotations: {{'x-opt-jms-msg-type': t.wrap_byte({kind})}}"
        for kind, body in (
            (2, "t.wrap_map({a: t.wrap_double(NaN)})"),
            (2, "t.wrap_map({a: t.wrap_float(Infinity)})"),
            (2, "t.wrap_map({a: t.wrap_list([1, {b: 2}])})"),
            (2, "t.wrap_map({$bytes: 'x'})"),
            (4, "rhea.message.sequence_section([1, t.wrap_double(NaN)])"),
            (4, "rhea.message.sequence_section([{x: [1]}])"),
        )
    ),
    "body: t.wrap_map({a: NaN})",
    "body: t.wrap_map({1: 2, a: {b: null}})",
    "body: rhea.message.sequence_section([1, 2])",
    "body: rhea.message.data_section(Buffer.from([255, 254])), content_type: 'text/plain;charset=nope'",
    "body: rhea.message.data_section(Buffer.from('x')), content_type: 'application/x-java-serialized-object'",
    "body: [1, 'a', null, [2]]",
    "body: 'a\\ud800b'",
    "body: t.wrap_ulong(5)",
    "body: 5.5",
    "body: null",
]
"""Messages whose bodies are no customer."""

_UNREADABLE: Final = (
    "body: rhea.message.data_section(Buffer.from([255, 254])), content_type: 'text/plain;charset=utf-8'"
)
"""The client library cannot hand this message out."""


def send_raw(broker: Broker, deployment: BrokerDeployment, fields: list[str]) -> None:
    """Sends messages. Fields without a body get that of a customer, whose number is the position."""
    parts = []
    for number, one in enumerate(fields):
        body = "" if "body:" in one else f"body: {json.dumps(json.dumps(customer(number)))}, "
        parts.append(f"{{{body}{one}}}")
    send_by_rhea(broker, deployment.input, f"[{', '.join(parts)}]")


def odd(broker: Broker) -> list[str]:
    """The fields of all messages that a broker takes. Broker-J refuses a list and a map as a property."""
    refused = ("wrap_list([1, 2])}", "wrap_map({x") if broker.kind == "broker_j" else ()
    return [*_BODIES, *(one for one in _ODD if not any(text in one for text in refused))]


def test_each_odd_message_is_browsed_and_processed_or_fails(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, connector={"DuplicateEventElimination": True})
    fields = odd(broker)
    send_raw(broker, deployment, fields)
    seen = deployment.run("browse", deployment.input, "--json", status=None)
    assert seen.returncode in (0, 1), seen.stderr
    assert "Traceback" not in seen.stderr
    assert "cannot carry nan" in seen.stderr
    assert len([line for line in seen.stdout.split("\n") if line]) == len(fields)
    deployment.work()
    assert [text for text in deployment.leftovers() if "DLQ" in text] == []
    assert deployment.messages(deployment.input) == []
    archived, failed = deployment.messages(deployment.archive), deployment.messages(deployment.error)
    found = sorted(int(json.loads(one.body)["CustomerId"]) for one in archived)
    assert found == list(range(len(_BODIES), len(fields)))
    assert len(failed) + len(deployment.messages(f"{deployment.name}.unsubscribed")) == len(_BODIES)
    reasons = [str(one.properties["connector_reason"]) for one in failed]
    assert any("cannot carry nan" in reason for reason in reasons), reasons
    kept = {name for one in archived for name in one.properties}
    assert {"a b", "select", "ä-ö", "p"} <= kept
    assert not any(name.startswith("_AMQ_") for name in kept)


def test_a_failed_message_keeps_its_body_and_can_be_moved_back(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    send_raw(broker, deployment, _BODIES[:2])
    for _ in range(2):
        deployment.work()
        with deployment.connected() as connection:
            session: Any = connection.broker.plain_session()  # type: ignore[attr-defined]
            error = session.createConsumer(session.createQueue(deployment.error))
            producer = session.createProducer(session.createQueue(deployment.input))
            for expected in ("nan", "inf"):
                copy = error.receive(60_000)
                assert str(float(copy.getObject("a"))) == expected
                assert "cannot carry" in str(copy.getStringProperty("connector_reason"))
                producer.send(copy)


def test_a_text_of_a_java_program_with_half_a_character_fails_alone(broker: Broker, deploy: Deploy) -> None:
    """Such a text has no form in UTF-8. A client library may refuse it, or send something else."""
    deployment = deploy(broker)
    with deployment.connected() as connection:
        jpype = connection.broker.jpype  # type: ignore[attr-defined]
        session = connection.broker.plain_session()  # type: ignore[attr-defined]
        producer = session.createProducer(session.createQueue(deployment.input))
        half = jpype.JClass("java.lang.String")(jpype.JArray(jpype.JChar)([0x41, 0xD800, 0x42]))
        text, mapped = session.createTextMessage(half), session.createMapMessage()
        with_property, with_type = session.createTextMessage("{}"), session.createTextMessage("{}")
        mapped.setString("x", half)
        with_property.setStringProperty("x", half)
        with_type.setJMSType(half)
        for message in (text, mapped, with_property, with_type):
            with contextlib.suppress(jpype.JException):
                producer.send(message)
    deployment.fill(1, first=9)
    deployment.work()
    assert deployment.customers(deployment.archive) == ["9"]
    assert deployment.messages(deployment.input) == []


def test_a_message_that_nobody_can_read_holds_up_no_other(
    broker: Broker, deploy: Deploy, caplog: pytest.LogCaptureFixture
) -> None:
    deployment = deploy(broker, connector={"PollQuantity": 4})
    for first in (0, 2):
        deployment.fill(2, first=first)
        send_raw(broker, deployment, [_UNREADABLE])
    deployment.fill(9, first=4)
    with deployment.serving():
        deployment.wait_for_calls(13)
        deployment.fill(2, first=13)
        deployment.wait_for_calls(15)
    assert "restarting the connection" not in caplog.text
    assert caplog.text.count("a message that cannot be read stays in its queue") == 2
    assert sorted(map(int, deployment.customers(deployment.archive))) == list(range(15))
    seen = deployment.run("browse", deployment.input, status=None)
    assert "Traceback" not in seen.stderr


def test_a_message_with_a_name_against_duplicates_is_processed_like_any(
    broker: Broker, deploy: Deploy
) -> None:
    """Artemis refuses a second message with this property in one address, and rolls the transaction back."""
    deployment = deploy(broker)
    queues = deployment.input, f"{deployment.name}.b"
    deployment.change("connector", InputDestination=[f"queue://{queue}" for queue in queues])
    for number, queue in enumerate(queues):
        message = Message(json.dumps(customer(number)).encode(), "T")
        message.set_property("_AMQ_DUPL_ID", "same")
        with deployment.connected() as connection:
            connection.send(parse_destination(f"queue://{queue}"), [message])
    deployment.finish(2)
