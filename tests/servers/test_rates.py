"""The rate of an input at real brokers, whose client library fetches ahead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.events.test_rates import assert_rate
from tests.servers.conftest import in_turn

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy


@in_turn("order, in_progress", ("destination", False), ("none", True))
def test_a_rate_holds_over_seconds(broker: Broker, deploy: Deploy, order: str, in_progress: bool) -> None:
    connector = {"PollQuantity": 25, "PollFrequency": 60_000, "order": order}
    deployment = deploy(broker, in_progress=in_progress, connector=connector)
    deployment.change("connector", InputDestination=[{"destination": deployment.input, "rate": "50/s"}])
    deployment.fill(600)
    began = time.monotonic()
    service = deployment.start()
    assert_rate(lambda: len(deployment.calls()), 600, 50, began)
    service.stop()
    deployment.finish(600)
