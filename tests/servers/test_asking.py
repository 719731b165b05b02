"""Requests from every edge of a deployment at real brokers, and the deployment that answers them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import connector
from tests.servers.asking import ask_by_message, asking, calls, is_named, serving
from tests.servers.conftest import AT_ARTEMIS, AT_BROKER_J

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

pytestmark = pytest.mark.process

TOKEN = "secret-token-of-the-tests"


def request(deployment: BrokerDeployment, verb: str, number: object) -> dict[str, Any]:
    """Asks with the command."""
    body = json.dumps({"CustomerId": str(number)})
    found: dict[str, Any] = json.loads(
        deployment.run("request", f"Customer.{verb}", "--json", body=body).stdout
    )
    return found


@AT_ARTEMIS
def test_every_edge_asks_and_one_deployment_serves(broker: Broker, deploy: Deploy) -> None:
    server = serving(broker, deploy)
    asker = asking(broker, deploy, server.input, http=True)
    answers, asks = server.start(), asker.start(java=True)
    asker.fill(3)  # a business process in a worker of Spark

    found = request(asker, "Retrieve", "command")
    assert (found["status"], found["object"]["Name"]) == ("VALCHANGE", "name of command")
    assert request(asker, "Create", "command-told")["status"] == "SUCCEED"

    with connector.Adapter.from_file(asker.directory / "adapter.yaml") as adapter:
        assert is_named(adapter.request("Customer.Retrieve", {"CustomerId": "python"}), "python")
        assert adapter.request("Customer.Create", {"CustomerId": "python-told"}).good

    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(timeout=60, trust_env=False, headers=headers, base_url=asker.http_url()) as http:
        found = http.post("/requests/Customer/Retrieve", json={"CustomerId": "http"}).json()
        assert (found["status"], found["object"]["Name"]) == ("VALCHANGE", "name of http")
        told = http.post("/requests/Customer/Create", json={"CustomerId": "http-told"})
        assert (told.status_code, told.json()["status"]) == (200, "SUCCEED")

    asker.wait_for(lambda: len(asker.customers(asker.archive)) == 3, "three events that ask")
    edges = ["command", "python", "http", "0", "1", "2"]
    expected = sorted([*edges, *(f"{edge}-told" for edge in edges)])
    server.wait_for_calls(len(expected))
    asks.stop()
    answers.stop()
    for deployment in (asker, server):
        assert deployment.messages(deployment.error) == []
        assert deployment.leftovers() == []
    assert server.archived() == expected
    assert calls(server) == dict.fromkeys(expected, 1)


@AT_BROKER_J
def test_instances_and_commands_that_share_a_reply_destination_get_their_own_replies(
    broker: Broker, deploy: Deploy
) -> None:
    server = serving(broker, deploy)
    asker = asking(broker, deploy, server.input, ReplyToDestination="queue://NAME.replies", PollQuantity=4)
    answers, instances = server.start(), [asker.start(), asker.start()]
    asker.wait_for_log(" ready ", count=2)
    asker.fill(40)
    members = [set(instance.members()) for instance in instances]
    for number in range(3):
        assert request(asker, "Retrieve", f"c{number}")["object"]["Name"] == f"name of c{number}"
    asker.wait_for(lambda: len(asker.customers(asker.archive)) == 40, "40 events that ask")
    for run in (*instances, answers):
        run.stop()
    callers = set(asker.workers())
    assert all(callers & pids for pids in members), "each instance has asked"
    assert asker.messages(asker.error) == []
    assert asker.bodies(f"{asker.name}.replies") == []
    assert sorted(calls(asker).values()) == [1] * 40
    assert "a reply came for which no request waits" not in asker.log()


@AT_ARTEMIS
def test_a_reply_and_the_end_of_its_event_are_one_transaction(broker: Broker, deploy: Deploy) -> None:
    server = serving(broker, deploy)
    replies = f"{server.name}.replies"
    identity = ask_by_message(server, 7, f"queue://{replies}")
    server.start("--drain", fault="settle.committing=killgroup").wait()
    assert calls(server) == {"7": 1}
    assert server.messages(replies) == server.messages(server.archive) == []
    server.work()
    (reply,) = server.messages(replies)
    assert (reply.correlation_id, json.loads(reply.body)["Name"]) == (identity, "name of 7")
    assert server.customers(server.archive) == ["7"]
    assert calls(server) == {"7": 1}, "what the process has answered is still known"
    assert server.leftovers() == []
