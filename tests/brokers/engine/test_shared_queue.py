"""Two inputs of one queue of a broker, which share it by their selectors."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine import world
from tests.brokers.engine.provider import LentProvider
from tests.tables import rows
from tests.waiting import wait_for

REGIONS = ("EU", "US")
BUSY = "queue://busy"


def deploy(directory: Path, **connector: Any) -> Deployment:
    inputs = [{"destination": "queue://customers", "selector": f"region = '{name}'"} for name in REGIONS]
    return world.deploy(directory, InputDestination=inputs, order="none", **connector)


def send(provider: LentProvider, region: str, *wishes: str) -> list[str]:
    """Sends a customer of a region for each wish. The id of the customer is the region."""
    messages = []
    for wish in wishes:
        values = {"BusinessObject": "Customer", "Id": region} | ({"Wish": wish} if wish else {})
        messages.append(Message(json.dumps(values).encode()))
        messages[-1].set_property("region", region)
    with contextlib.closing(provider.connect()) as connection:
        return connection.send(Destination("queue", "customers"), messages)


@rows("connector", [{}, {"InProgressDestination": BUSY}, {"PollQuantity": 1}])
def test_each_input_gives_its_messages_and_the_rest_stays(tmp_path: Path, connector: dict[str, Any]) -> None:
    provider = LentProvider(tmp_path / "state")
    deployment = deploy(tmp_path, **connector)
    for region in (*REGIONS, *REGIONS):
        send(provider, region, *[""] * 3)
    rest = send(provider, "JP", "")
    with InProcessAdapter(deployment.configuration, provider, parallelism=2) as adapter:
        assert adapter.drain().settled == 12
    assert world.stored(deployment) == ["EU 1"] * 6 + ["US 1"] * 6
    assert world.ids(provider, "customers") == rest


def test_an_input_whose_event_went_back_delays_no_other_input_of_the_queue(tmp_path: Path) -> None:
    """A rollback lets its input pause for PollFrequency."""
    provider = LentProvider(tmp_path / "state")
    deployment = deploy(tmp_path, PollFrequency=3_600_000)
    with InProcessAdapter(deployment.configuration, provider, parallelism=2) as adapter:
        adapter.start()

        def paused() -> list[str]:
            adapter.serve()
            adapter.settle_ended()
            return [one.input.selector for one in adapter._connection.working.inputs if one.back_off.is_on]

        asleep = send(provider, "EU", "sleep")
        wait_for(paused, what="an event that has gone back")
        send(provider, "US", "")
        wait_for(lambda: paused() and world.stored(deployment), what="the event of the other input")
        assert (paused(), world.stored(deployment)) == (["region = 'EU'"], ["US 1"])
    assert world.ids(provider, "customers") == asleep
