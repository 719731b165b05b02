"""SIGKILL under ContainerManagedEvents: taking and sending on are one commit, whoever dies."""

from __future__ import annotations

import json
import random
import time
from collections import Counter

import pytest

from tests.crash.conftest import EVERY_PROVIDER, Deploy
from tests.crash.harness import CrashDeployment
from tests.waiting import wait_for

JAVA = False

STEPS = (
    ("settle.record", 2, "driver group"),
    ("settle.committing", 2, "driver group"),
    ("claim", 20, "driver"),
    ("settle.move", 31, "driver"),
    ("settle.finished", 2, "group"),
)
"""A place, which time it is reached (in the middle of a cycle), and who is killed there."""
STEPS_OF_TABLES = (
    ("claim.uncommitted", 2, "driver"),
    ("prepare.uncommitted", 2, "driver group"),
    ("prepare", 2, "driver group"),
    ("settle.record", 2, "driver group"),
    ("settle.committing", 2, "driver group"),
    ("settle.finished", 2, "group"),
)
SINKS = ("crm", "shop")


@pytest.mark.parametrize("provider_type", EVERY_PROVIDER)
def test_a_kill_at_every_step_sends_each_message_on_exactly_once(deploy: Deploy, provider_type: str) -> None:
    deployment = _managed(deploy)
    ids = deployment.fill("in", [""] * 60)
    for place, nth, victims in STEPS if provider_type == "dropbox" else STEPS_OF_TABLES:
        for victim in victims.split():
            run = deployment.start("--drain", fault=f"{place}:{nth}=pause")
            run.await_pause(place)
            run.kill_while_paused(whole_group=victim == "group")
            ids += deployment.fill("in", [""] * 20)
    deployment.drain()
    _assert_sent_on_once(deployment, ids)


@pytest.mark.parametrize("provider_type", ["dropbox", "postgresql"])
def test_kills_at_random_moments_send_each_message_on_exactly_once(deploy: Deploy) -> None:
    """The next one starts while tasks of a killed driver may still prepare what would have been sent."""
    moments = random.Random(8)
    deployment = _managed(deploy)
    ids = deployment.fill("in", [""] * 2000)
    for number in range(3):
        before = deployment.count("archive")
        run = deployment.start("--drain")
        wait_for(lambda before=before: deployment.count("archive") > before, 120)  # type: ignore[misc]
        time.sleep(moments.uniform(0.0, 0.2))
        if number % 2:
            run.kill_everything()
        else:
            run.signal_driver()
    assert deployment.count("archive") < len(ids), "killed while there was something to do"
    deployment.drain()
    for run in deployment.runs:
        run.await_gone()
    _assert_sent_on_once(deployment, ids)


def _managed(deploy: Deploy) -> CrashDeployment:
    """Sends each customer on to two queues in the transaction that took it."""
    sinks = [{"object": "Customer", "name": name, "destination": f"queue://{name}"} for name in SINKS]
    return deploy(
        connector={"ContainerManagedEvents": "JMS", "PollQuantity": 15},
        only=sinks,
    )


def _assert_sent_on_once(deployment: CrashDeployment, ids: list[str]) -> None:
    assert deployment.ids("archive") == Counter(ids)
    for sink in SINKS:
        bodies = [json.loads(message.body) for message in deployment.messages(sink)]
        customers = Counter(int(body["CustomerId"]) for body in bodies)
        assert customers == Counter(range(1, len(ids) + 1)), sink
        assert list(deployment.root.glob(f"{sink}/incoming/working/*")) == []
    assert deployment.leftovers() == []
