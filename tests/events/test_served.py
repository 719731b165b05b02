"""The service in one process: what ends a poll, and what ends the service."""

from __future__ import annotations

import json
import threading
import time

from connector.service.loop import Service
from tests.events.conftest import Bench
from tests.waiting import wait_for

FREQUENCY = 200


def test_a_process_that_is_not_active_is_asked_again_after_poll_frequency(bench: Bench) -> None:
    deployment = bench.deploy(
        subscriptions=[{"object": "Customer", "process": "processes:a", "name": "a"}], PollFrequency=FREQUENCY
    )
    body = json.dumps({"CustomerId": "1", "Name": "a: inactive-once until noon"})
    deployment.drop("customers", body, "4.1.T")
    calls = deployment.directory / "calls"

    def times_called() -> int:
        return len(calls.read_text().splitlines()) if calls.exists() else 0

    failures: list[str | None] = []
    with deployment.running() as adapter:
        service = Service(adapter)
        thread = threading.Thread(target=lambda: failures.append(service.run()))
        thread.start()
        try:
            wait_for(lambda: times_called() >= 1)
            first = time.monotonic()
            wait_for(lambda: times_called() >= 2)
            assert time.monotonic() - first > FREQUENCY / 1000 * 0.8
            deployment.write("woken", "")
            wait_for(lambda: len(deployment.messages("archive")) == 1)
        finally:
            service.stop()
            thread.join(120)
    assert failures == [None]
