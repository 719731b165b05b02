"""Topics as inputs on real brokers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from tests.runs import customer
from tests.servers.broker import TOPIC
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment


def subscribed(broker: Broker, deploy: Deploy) -> BrokerDeployment:
    """A deployment whose input is a subscription of a topic, with a name of its own."""
    deployment = deploy(broker)
    entry = {"destination": f"topic://{TOPIC}", "subscription": deployment.name}
    deployment.change("connector", InputDestination=[entry])
    return deployment


def publish(deployment: BrokerDeployment, numbers: range, name: str = "sleep:0.05") -> None:
    messages = [Message(json.dumps(customer(number, name)).encode(), "T") for number in numbers]
    with deployment.connected() as connection:
        connection.send(parse_destination(f"topic://{TOPIC}"), messages)


@pytest.mark.process
def test_two_instances_share_a_topic(broker: Broker, deploy: Deploy) -> None:
    deployment = subscribed(broker, deploy)
    first, second = deployment.start(), deployment.start()
    deployment.wait_for_log(" ready ", count=2)
    publish(deployment, range(60))
    deployment.wait_for_calls(60)
    first.stop()
    publish(deployment, range(60, 70))
    deployment.wait_for_calls(70)
    second.stop()
    publish(deployment, range(70, 75))
    deployment.work()
    calls = [customer for customer, _ in deployment.calls()]
    assert sorted(calls, key=int) == [str(number) for number in range(75)]
    assert sorted(map(int, deployment.customers(deployment.archive))) == list(range(75))
    wait_for(lambda: unsubscribes(deployment), what="the subscription is removed")


def unsubscribes(deployment: BrokerDeployment) -> bool:
    """Removes the subscription. A busy broker may end the consumers of a stopped instance a moment later."""
    answer = deployment.run("unsubscribe", "--subscription", deployment.name, status=None)
    assert answer.returncode == 0 or "active consumers" in answer.stderr, answer.stderr
    return answer.returncode == 0


def test_a_shared_subscription_of_the_command_is_that_of_the_input(broker: Broker, deploy: Deploy) -> None:
    deployment = subscribed(broker, deploy)
    deployment.run("subscribe", f"topic://{TOPIC}", "--subscription", deployment.name, "--shared")
    publish(deployment, range(3))
    deployment.work()
    assert deployment.archived() == ["0", "1", "2"]
    deployment.run("unsubscribe", "--subscription", deployment.name)


def test_queues_and_check_know_the_topic(broker: Broker, deploy: Deploy) -> None:
    deployment = subscribed(broker, deploy)
    found = {one["destination"]: one for one in deployment.lines("queues")}
    topic = found[f"topic://{TOPIC}"]
    assert (topic["role"], topic["waiting"]) == ("input", None)
    (one,) = topic["subscriptions"]
    assert (one["subscription"], one["shared"], one["client_id"]) == (deployment.name, True, "")
    shown = deployment.run("queues").stdout
    assert f"topic://{TOPIC}" in shown
    assert deployment.name in shown
    needed = {one["ability"] for one in deployment.lines("check", "--connect") if one["needed"]}
    assert "shared subscriptions" in needed
