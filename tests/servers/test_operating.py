"""Operations at real brokers: a pause, the console, a correction."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from tests.forked_command import PipedProcess
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J

if TYPE_CHECKING:
    from connector.messaging.message import Message
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

pytestmark = pytest.mark.process


@AT_BROKER_J
def test_a_paused_input_leaves_its_messages_to_others(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.fill(5)
    run = deployment.start()
    deployment.wait_for(lambda: len(deployment.archived()) == 5, "the first events")
    deployment.run("pause", deployment.input, "--reason", "the shop is closed")
    deployment.wait_for_log("paused by an operator")
    deployment.fill(6, first=5)
    (taken,) = deployment.lines("receive", deployment.input)
    assert json.loads(taken["body"])["CustomerId"] == "5", "no consumer has fetched it ahead"
    deployment.run("resume", "--all")
    deployment.wait_for(lambda: len(deployment.archived()) == 10, "the other events")
    run.stop()
    assert "5" not in deployment.archived()


@AT_BROKER_J
def test_the_console_shows_the_queues_of_a_broker(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.change("http", listen="127.0.0.1:0", console=True)
    deployment.fill(3, name="raise:no account")
    run = deployment.start()
    error = f"queue://{deployment.error}"
    deployment.wait_for(lambda: len(deployment.customers(deployment.error)) == 3, "the failures")
    identity = str(deployment.messages(deployment.error)[0].message_id)
    with httpx.Client(base_url=deployment.http_url(), timeout=60, trust_env=False) as http:
        for path, query, text in (
            ("", {}, f"queue://{deployment.input}"),
            ("/queues", {}, error),
            ("/errors", {}, r'class="count">3</span>\s+refused'),
            ("/messages", {"queue": error}, identity),
            ("/messages", {"queue": error}, "(?s)(no account.*){3}"),
            ("/message", {"queue": error, "id": identity}, "CustomerId"),
            ("/explain", {"queue": error, "id": identity}, "It would be"),
            ("/history", {"id": identity}, "<strong>failed</strong>"),
        ):
            answer = http.get(f"/console{path}", params=query)
            assert answer.status_code == httpx.codes.OK, answer.text
            assert re.search(text, answer.text), (path, text)
    run.stop()


_CORRECT: Final = """
import sys
from connector.config.loading import load
from connector.messaging.destination import parse_destination
from connector.service.orders import correct_message

directory, queue, identity, body = sys.argv[1:]
source = parse_destination(queue)
correct_message(load(f"{directory}/adapter.yaml"), source, identity, body.encode(), by="eva")
"""
"""What the console calls, in a process of its own."""


def correct(deployment: BrokerDeployment, message: Message, fault: str = "") -> tuple[int, str]:
    """Corrects a message in a process of its own. Returns its status and its errors."""
    body = json.dumps({**json.loads(message.body), "Name": "corrected"})
    given = deployment.directory, f"queue://{deployment.error}", message.message_id, body
    with PipedProcess(*given, cwd=deployment.directory, script=_CORRECT, CONNECTOR_FAULT=fault) as process:
        _, errors = process.communicate(timeout=240)
    return process.wait(), errors


@AT_ARTEMIS
def test_a_correction_that_is_killed_is_made_once_or_not_at_all(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    error = deployment.error
    deployment.fill(1, name="raise:no account")
    deployment.work()
    (message,) = deployment.messages(error)
    status, errors = correct(deployment, message, fault="settle.committing=kill")
    assert status == -signal.SIGKILL, errors
    deployment.wait_for(lambda: len(deployment.messages(error)) == 1, "the rollback")
    status, errors = correct(deployment, message, fault="settle.finished=kill")
    assert status == -signal.SIGKILL, errors
    status, errors = correct(deployment, message)
    assert status != 0
    assert "any more" in errors
    deployment.work()
    assert deployment.messages(error) == []
    kept = [one.properties["connector_outcome"] for one in deployment.messages(deployment.archive)]
    assert sorted(map(str, kept)) == ["discarded", "published"]
    assert deployment.leftovers() == []
