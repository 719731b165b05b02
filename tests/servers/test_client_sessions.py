"""Sessions and requests with each client library: a program in a process of its own, by ``adapter.yaml``."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.forked_command import PipedProcess
from tests.servers.test_clients import CLIENTS, AtBroker, at_broker

__all__ = ["at_broker"]

_PROGRAM: Final = """
import json
import sys

from connector import Adapter
from connector.messaging import AcknowledgeMode, connect

queue = sys.stdin.readline().strip()
found = {}
with connect("adapter.yaml") as connection:
    for mode in AcknowledgeMode:
        with connection.session(mode) as session:
            for body in ("1", "2", "3"):
                session.send(queue, body)
            if session.transacted:
                session.commit()
            consumer = session.consumer(queue)
            messages = [consumer.receive(60) for _ in range(3)]
            consumer.close()
            if mode is AcknowledgeMode.INDIVIDUAL:
                messages[1].acknowledge()
            elif mode is AcknowledgeMode.CLIENT:
                messages[0].acknowledge()  # and with it all
            elif session.transacted:
                session.rollback()
        with connection.session() as session:
            left = session.consumer(queue)
            found[mode.name] = [message.value for message in left.messages(timeout=0.5)]
    with connection.session() as asking, connection.session() as answering:
        replies = asking.temporary_queue()
        asking.producer(queue).send("question", reply_to=replies)
        question = answering.consumer(queue).receive(60)
        answering.producer(question.reply_to).send("answer", correlation_id=question.message_id)
        found["reply"] = asking.consumer(replies).receive(60).value
with Adapter.from_file("adapter.yaml") as adapter:
    for number in (1, 2):
        result = adapter.request("Customer.Create", {"CustomerId": str(number), "Name": "n"}, timeout=20000)
        found[f"request {number}"] = [result.status.name, result.object["Name"]]
print(json.dumps(found))
"""
_SERVING: Final = """
def store(customer, event):
    customer["Name"] = f"name of {customer['CustomerId']}"
    return customer
"""
_RULES: Final = """
---
static_metaobject: MO_Config
rules:
  Customer_Create: {OutputDestination: "queue://INPUT", ResponseTimeout: 20000}
"""


@pytest.mark.parametrize("name", CLIENTS)
def test_a_program_has_sessions_and_makes_requests(at_broker: AtBroker, name: str) -> None:
    deployment = at_broker(CLIENTS[name], connector={"ConfigurationMetaObject": "MO_Config"})
    deployment.subscribe({"object": "Customer", "process": "processes:store", "reply": True})
    (deployment.directory / "processes.py").write_text(_SERVING)
    objects = deployment.directory / "metaobjects" / "objects.yaml"
    objects.write_text(objects.read_text() + _RULES.replace("INPUT", deployment.input))
    service = deployment.start()
    with PipedProcess(cwd=deployment.directory, script=_PROGRAM) as program:
        output, errors = program.communicate(f"queue://{deployment.name}.program\n", timeout=120)
    assert program.wait() == 0, errors[-3000:]
    service.stop()
    assert json.loads(output.splitlines()[-1]) == {
        "AUTO": [],
        "DUPS_OK": [],
        "CLIENT": [],
        "INDIVIDUAL": ["1", "3"],
        "TRANSACTED": ["1", "2", "3"],
        "reply": "answer",
        "request 1": ["VALCHANGE", "name of 1"],
        "request 2": ["VALCHANGE", "name of 2"],
    }
