"""SIGKILL while a topic is polled through a durable subscription, and a part of a queue by a selector.

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

JAVA = False

PRICES = "topic://prices"
AUDIT = "topic://prices|audit."
ANOTHER_S = ("parts/target/", "topic-root/prices/.subscriptions/audit./target/")
"""Where messages stay that are not for the adapter."""
INPUTS = [
    {"destination": PRICES, "subscription": "all"},
    {"destination": "queue://parts", "selector": "JMSXGroupID = 'ours'"},
]
STEPS = (
    ("fanout.claim", 4, "driver group"),
    ("fanout.link", 3, "driver group"),
    ("settle.committing", 3, "driver group"),
    ("claim", 15, "group"),
    ("settle.record", 3, "driver"),
    ("settle.move", 9, "group"),
    ("settle.finished", 4, "driver"),
    ("begin", 5, "driver"),
    ("deliver", 9, "group"),
    ("done", 3, "driver"),
)
"""A place, which time it is reached (records are those of the fan-out, too), and who is killed there: the
driver alone, or the whole group. All of both, without a topic, are in test_steps."""


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


def test_a_kill_at_every_step_loses_nothing_of_a_subscription_or_of_a_part_of_a_queue(deploy: Deploy) -> None:
    deployment, sent = _deployed(deploy), Sent()
    sent.send(deployment, 30)
    kills = [(place, nth, victim) for place, nth, victims in STEPS for victim in victims.split()]
    for place, nth, victim in kills:
        run = deployment.start("--drain", fault=f"{place}:{nth}=pause")
        run.await_pause(place)
        run.kill_while_paused(whole_group=victim == "group")
        sent.send(deployment, 10)
    deployment.drain()
    sent.assert_settled(deployment, kills=len(kills))


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
    wait_for(lambda: len(deployment.names("archive")) == len(sent.by_topic + sent.ours), 120)
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
