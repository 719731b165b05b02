"""SIGKILL while a topic is polled through a durable subscription, and a part of a queue by a selector.

Kills at each step of a topic: tests/crashing and tests/crash_states.

What comes in by the topic is dropped there by a foreign program, so it is also the adapter that distributes
it: to its own subscription, and to one of somebody else, which has to get the same.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

from connector.messaging.destination import Destination
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.waiting import wait_for

PRICES = "topic://prices"
AUDIT = "topic://prices|audit."
ANOTHER_S = ("parts/target/", "topic-root/prices/.subscriptions/audit./target/")
"""Where messages stay that are not for the adapter."""
INPUTS = [
    {"destination": PRICES, "subscription": "all"},
    {"destination": "queue://parts", "selector": "JMSXGroupID = 'ours'"},
]


@dataclass
class Sent:
    """The ids of what was sent: to the topic, to our part of the queue, to that of others."""

    by_topic: list[str] = field(default_factory=list)
    ours: list[str] = field(default_factory=list)
    theirs: list[str] = field(default_factory=list)

    def send(self, deployment: CrashDeployment, count: int, name: str = "") -> None:
        """So many to the topic, so many to our part, and three to that of others."""
        self.by_topic += deployment.fill(PRICES, [name] * count)
        self.ours += deployment.fill("parts", [name] * count, group="ours")
        self.theirs += deployment.fill("parts", [name] * 3, group="theirs")

    def assert_settled(self, deployment: CrashDeployment, *, kills: int) -> None:
        """Ours are settled once, and what is for others waits for them, once and untouched."""
        assert_settled_once(deployment, self.by_topic + self.ours, kills=kills, but=ANOTHER_S)
        assert deployment.ids(AUDIT) == Counter(self.by_topic)
        assert deployment.ids("parts") == Counter(self.theirs)
        assert all("JMSXDeliveryCount" not in name for name in deployment.names("parts"))


def test_an_instance_takes_over_the_subscription_of_a_killed_one_without_a_restart(deploy: Deploy) -> None:
    """Two instances of one application share a subscription that is not shared with any other."""
    deployment, sent = _deployed(deploy, PollQuantity=20), Sent()
    runs = [deployment.start() for _ in range(2)]
    for run in runs:
        run.await_start()
    sent.send(deployment, 15, "gate:1")
    both = wait_for(lambda: len(deployment.reached("1")) >= 2 and deployment.reached("1"), 120)
    killed, neighbour = sorted(runs, key=lambda run: both[0] not in run.members())
    assert both[0] in killed.members()
    killed.kill_everything()
    deployment.open("1")
    sent.send(deployment, 5)
    deployment.await_archived(sent.by_topic + sent.ours)
    neighbour.stop()
    sent.assert_settled(deployment, kills=1)


def _deployed(deploy: Deploy, **connector: object) -> CrashDeployment:
    """With the subscriptions, so that they get whatever is sent."""
    deployment = deploy(inputs=("parts",), connector={"InputDestination": INPUTS, **connector})
    topic = Destination("topic", "prices")
    provider = DropboxProvider(deployment.root, create=True, durable=False)
    with closing(provider.connect("crash", "first", client_id="crash")) as connection:
        connection.poller(TopicSubscription(topic, "all", "crash", durable=True)).close()
        connection.poller(TopicSubscription(topic, "audit", durable=True, shared=True)).close()
    return deployment
