"""Operations at real brokers: health while the broker is away, a pause, the console, a correction."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from functools import partial
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


def health(url: str, page: str) -> tuple[int, list[str]]:
    answer = httpx.get(f"{url}/health/{page}", timeout=120, trust_env=False)
    return answer.status_code, answer.json()["reasons"]


# -- health --------------------------------------------------------------------------------------------------


@AT_ARTEMIS
def test_a_storm_is_seen_and_a_broker_that_is_away(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(
        broker, connector={"RestartRetryCount": 1000, "RestartRetryInterval": 0.01, "retry_pause": None}
    )
    deployment.change("http", listen="127.0.0.1:0")
    run = deployment.start()
    url = deployment.http_url()
    deployment.wait_for(lambda: health(url, "ready")[0] == 200, "the adapter is ready")
    assert health(url, "well") == (200, [])
    assert deployment.run("status", "--check").returncode == 0
    deployment.fill(20, name="raise:no account")
    deployment.wait_for(lambda: health(url, "well")[0] == 503, "the storm is seen")
    assert re.search(r"20 of 20 events failed", health(url, "well")[1][0])
    assert health(url, "ready") == (200, [])
    assert deployment.run("status", "--check", status=1).returncode == 1
    (group,) = deployment.lines("errors")
    assert (group["kind"], group["count"]) == ("refused", 20)
    deployment.fill(30, first=20)
    deployment.wait_for(lambda: health(url, "well") == (200, []), "it is well again")
    broker.kill()
    try:
        deployment.wait_for(lambda: health(url, "ready")[0] == 503, "the broker is missed")
        assert health(url, "live")[0] == 200
        deployment.wait_for(lambda: health(url, "well")[0] == 503, "it is not well")
    finally:
        broker.start()
    deployment.wait_for(lambda: health(url, "ready")[0] == 200, "the broker is back")
    deployment.fill(1, first=50)
    deployment.wait_for(lambda: "50" in deployment.archived(), "an event")
    run.stop()


# -- pause ---------------------------------------------------------------------------------------------------


@AT_BROKER_J
def test_a_paused_input_leaves_its_messages_to_others(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.fill(5)
    run = deployment.start()
    deployment.wait_for(lambda: len(deployment.archived()) == 5, "the first events")
    deployment.run("pause", deployment.input, "--reason", "the shop is closed")
    deployment.wait_for_log("paused by an operator")
    (document,) = deployment.lines("status")
    assert [one["what"] for one in document["paused"]] == [f"queue://{deployment.input}"]
    deployment.fill(6, first=5)
    (taken,) = deployment.lines("receive", deployment.input)
    assert json.loads(taken["body"])["CustomerId"] == "5", "no consumer has fetched it ahead"
    deployment.run("resume", "--all")
    deployment.wait_for(lambda: len(deployment.archived()) == 10, "the other events")
    run.stop()
    assert "5" not in deployment.archived()


# -- console -------------------------------------------------------------------------------------------------


@AT_BROKER_J
def test_the_console_shows_the_queues_of_a_broker(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.change("http", listen="127.0.0.1:0", console=True)
    deployment.fill(3, name="raise:no account")
    run = deployment.start()
    error = f"queue://{deployment.error}"
    deployment.wait_for(lambda: len(deployment.customers(deployment.error)) == 3, "the failures")
    with httpx.Client(base_url=deployment.http_url(), timeout=60, trust_env=False) as http:

        def page(path: str, **query: str) -> str:
            answer = http.get(f"/console{path}", params=query)
            assert answer.status_code == httpx.codes.OK, answer.text
            return answer.text

        assert f"queue://{deployment.input}" in page("")
        assert error in page("/queues")
        assert re.search(r'class="count">3</span>\s+refused', page("/errors"))
        listed = page("/messages", queue=error)
        assert listed.count("no account") == 3
        identity = str(deployment.messages(deployment.error)[0].message_id)
        assert identity in listed
        assert "CustomerId" in page("/message", queue=error, id=identity)
        assert "It would be" in page("/explain", queue=error, id=identity)
        assert "<strong>failed</strong>" in page("/history", id=identity)
    run.stop()


@AT_ARTEMIS
def test_a_correction_that_is_killed_is_made_once_or_not_at_all(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    error, archive = deployment.error, deployment.archive
    deployment.fill(2, name="raise:no account")
    deployment.work()

    def has(count: int) -> bool:
        return len(deployment.messages(error)) == count

    for place in ("claim", "settle.committing", "settle.finished"):
        (message, *_) = deployment.messages(error)
        status, errors = correct(deployment, message, fault=f"{place}=kill")
        assert status == -signal.SIGKILL, errors
        count = 1 if place == "settle.finished" else 2
        deployment.wait_for(partial(has, count), "the rollback")
    (message,) = deployment.messages(error)
    assert correct(deployment, message)[0] == 0
    status, errors = correct(deployment, message)
    assert status != 0
    assert "any more" in errors
    deployment.work()
    assert deployment.messages(error) == []
    kept = [one.properties["connector_outcome"] for one in deployment.messages(archive)]
    assert Counter(kept) == {"discarded": 2, "published": 2}
    assert deployment.leftovers() == []


def correct(deployment: BrokerDeployment, message: Message, fault: str = "") -> tuple[int, str]:
    """Corrects a message in a process of its own. Returns its status and its errors."""
    body = json.dumps({**json.loads(message.body), "Name": "corrected"})
    given = deployment.directory, f"queue://{deployment.error}", message.message_id, body
    with PipedProcess(*given, cwd=deployment.directory, script=_CORRECT, CONNECTOR_FAULT=fault) as process:
        _, errors = process.communicate(timeout=240)
    return process.wait(), errors
