"""Adapters whose queues refuse messages, and messages of a sender with odd ids, on real brokers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.status import ReturnCode
from tests.runs import customer
from tests.servers.broker import SMALL
from tests.servers.conftest import in_turn
from tests.servers.rhea import send_by_rhea

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

_OPTIONS = "jms.sendTimeout=500"
"""Artemis lets a client wait that sends to a full queue."""


def fill(deployment: BrokerDeployment, queue: str) -> None:
    with deployment.connected() as connection:
        connection.send(parse_destination(f"queue://{queue}"), [Message(b"in the way", "T")])


def free(deployment: BrokerDeployment, queue: str) -> None:
    (found,) = deployment.lines("receive", queue, "--wait", "5000")
    assert found["body"] == "in the way"


@pytest.mark.parametrize(("which", "in_progress"), [("Archive", False), ("Error", True)])
def test_a_message_waits_until_the_queue_of_its_copy_takes_it(
    broker: Broker, deploy: Deploy, which: str, in_progress: bool
) -> None:
    failed = which == "Error"
    queue = f"NAME{SMALL}"
    deployment = deploy(
        broker,
        in_progress=in_progress,
        options=_OPTIONS,
        connector={f"{which}Destination": f"queue://{queue}"},
    )
    queue = queue.replace("NAME", deployment.name)
    fill(deployment, queue)
    deployment.fill(1, name="raise:no" if failed else "")
    for _ in range(2):
        reason = deployment.work(ReturnCode.APPRESPONSETIMEOUT)
        assert "nothing was settled" in reason
        assert queue in reason
    assert deployment.bodies(queue) == ["in the way"]
    free(deployment, queue)
    deployment.finish(
        1, failed=[0] if failed else [], archive="" if failed else queue, error=queue if failed else ""
    )


@pytest.mark.process
@in_turn("step", "begin:2", "settle.committing", "settle.finished")
def test_messages_without_ids_and_with_equal_ids_are_processed_each(
    broker: Broker, deploy: Deploy, step: str
) -> None:
    deployment = deploy(broker)
    bodies = [json.dumps(customer(number)) for number in range(4)]
    messages = [{"body": body} for body in bodies[:2]]
    messages += [{"message_id": "same", "body": body} for body in bodies[2:]]
    send_by_rhea(broker, deployment.input, json.dumps(messages))
    deployment.start("--drain", fault=f"{step}=killgroup").wait()
    deployment.finish(4, twice=2 if step == "begin:2" else 0)
