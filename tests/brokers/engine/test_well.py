"""Well at a broker: failures and dead workers are known, the numbers of waiting messages are not."""

from __future__ import annotations

import time

import pytest

from connector.operate.metrics import InstanceMetrics
from connector.service.observer import Observer
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import send

pytestmark = pytest.mark.slow


def test_failures_make_it_unwell_and_what_a_broker_does_not_tell_is_unknown(
    provider: LentProvider, adapter: InProcessAdapter
) -> None:
    observer = Observer(adapter, provider)
    send(provider, *["fail"] * 6)
    adapter.drain()
    time.sleep(1.0)  # a note is published once a second
    adapter.poll()
    document = observer.status()
    (reason,) = document["reasons"]
    assert reason.startswith("one: 6 of 6 events failed in 5 minutes")
    assert (document["failed_5m"], document["error_waiting"], document["error_growth_5m"]) == (6, None, None)
    assert observer.not_ready() == ""
    text = InstanceMetrics(observer.activity, observer.gauges).text("")[0].decode()
    assert "connector_well 0.0\n" in text
    assert "connector_error_waiting" not in text


def test_a_worker_that_died_is_counted(provider: LentProvider, adapter: InProcessAdapter) -> None:
    send(provider, "", "end", "")
    adapter.drain()
    time.sleep(1.0)
    adapter.poll()
    document = Observer(adapter, provider).status()
    assert (document["workers_died_5m"], document["published_5m"], document["well"]) == (1, 3, True)
    assert adapter.activity.workers_died == 1
