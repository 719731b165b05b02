"""Names of queues and topics at real brokers, and the types of values in maps and streams."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Final

from connector.messaging.destination import own_destination
from tests.runs import customer
from tests.tables import Table

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

NAMES: Final = ("a/b", "a b", "50%", "x%2Fy", "rep~EXPIRED", "größe/ü", "..", ".x", "l" * 300, "to;do")
"""Names of queues. Behind a question mark Artemis has options, and no client gets a message."""


def test_each_name_is_an_input_with_copies_replies_and_commands(artemis: Broker, deploy: Deploy) -> None:
    with Table() as table:
        for number, name in enumerate(NAMES):
            with table.row(name):
                own = f"{number}/{name}" if name not in ("..", ".x") else f"{name}{number}"
                queue = str(own_destination("queue", own))
                inputs = {"InputDestination": [queue], "ArchiveDestination": f"{queue}-done"}
                deployment = deploy(artemis, connector=inputs, store={"reply": True})
                with deployment.connected() as connection:
                    session: Any = connection.broker.plain_session()  # type: ignore[attr-defined]
                    producer = session.createProducer(session.createQueue(own))
                    asked = session.createTextMessage(json.dumps(customer(1)))
                    asked.setJMSReplyTo(session.createQueue(f"{own}-reply"))
                    producer.send(asked)
                    assert len(deployment.lines("browse", queue)) == 1
                    deployment.work()
                    for end in ("-reply", "-done"):
                        with contextlib.closing(
                            session.createConsumer(session.createQueue(own + end))
                        ) as there:
                            found = there.receive(10_000)
                            assert found is not None, end
                            if end == "-done":
                                origin = str(found.getStringProperty("connector_origin_destination"))
                                assert origin == queue
                                history = deployment.run(
                                    "history", str(found.getStringProperty("connector_message_id"))
                                )
                                assert "published" in history.stdout
                deployment.run("send", queue, body="no object")
                deployment.work()
                (failed,) = [one.message_id for one in deployment.messages(deployment.error)]
                deployment.run("replay", "--id", str(failed), "--yes")
                assert len(deployment.lines("browse", queue)) == 1
                assert deployment.run("receive", queue).stdout.count("no object") == 1
                deployment.run("pause", queue)
                deployment.run("resume", queue)


def test_plain_texts_with_a_slash_name_the_same_queue(artemis: Broker, deploy: Deploy) -> None:
    deployment = deploy(artemis, connector={"InputDestination": ["queue://PRICES/NYSE"]})
    deployment.run("send", "queue://PRICES/NYSE", body="1")
    assert len(deployment.lines("browse", "queue://PRICES%2FNYSE")) == 1
    assert len(deployment.lines("browse", "PRICES%2fNYSE")) == 1
    assert "queue://PRICES%2FNYSE" in deployment.run("queues").stdout
    assert deployment.run("receive", "PRICES/NYSE").stdout.endswith("| 1\n")


_CLASSES: Final = {
    "Int": "Integer", "Long": "Long", "SmallLong": "Long", "Short": "Short", "Byte": "Byte", "I": "Integer",
    "Float": "Float", "Double": "Double", "D": "Double", "Char": "Character", "Text": "String",
    "Yes": "Boolean",
}  # fmt: skip


def test_java_reads_the_types_of_values_and_a_copy_keeps_them(artemis: Broker, deploy: Deploy) -> None:
    deployment = deploy(artemis)
    program = f"""
from connector.messaging import *
with connect("adapter.yaml") as connection, connection.session() as session:
    values = {{"Int": 7, "Long": 1 << 40, "SmallLong": Long(7),
        "Short": Short(7), "Byte": Byte(-1), "I": Int(7),
        "Float": Float(1.5), "Double": 1.5, "D": Double(2.5), "Char": Char("x"), "Text": "x", "Yes": True}}
    session.send("queue://{deployment.name}.values", values)
    session.send("queue://{deployment.name}.values", list(values.values()))
    received = session.consumer("queue://{deployment.name}.values")
    for number in range(2):
        message = received.receive(30)
        session.send("queue://{deployment.name}.copies", message)
        session.send("queue://{deployment.name}.copies", message.value)
    for wrong in ({{"big": 1 << 70}}, [1 << 64]):
        try:
            session.send("queue://{deployment.name}.copies", wrong)
        except ValueError as error:
            print(error)
"""
    answer = deployment.execute(program)
    assert answer.count("does not fit a long (64 bits)") == 2
    with deployment.connected() as connection:
        session: Any = connection.broker.plain_session()  # type: ignore[attr-defined]
        there = session.createConsumer(session.createQueue(f"{deployment.name}.copies"))
        for number in range(4):
            found = there.receive(30_000)
            if number < 2:
                values = {name: found.getObject(name) for name in _CLASSES}
                assert found.getInt("Int") == 7
                assert found.getShort("Short") == 7
                assert not found.propertyExists("connector_types")
            else:
                values = {name: found.readObject() for name in _CLASSES}
            classes = {name: str(one.getClass().getSimpleName()) for name, one in values.items()}
            assert classes == _CLASSES, number
