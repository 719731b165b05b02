"""Well at a broker: failures and dead workers are known, the numbers of waiting messages are not."""

from __future__ import annotations

from connector.operate.metrics import InstanceMetrics
from connector.service.observer import Observer
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import send
from tests.waiting import wait_for


def test_failures_make_it_unwell_and_what_a_broker_does_not_tell_is_unknown(
    provider: LentProvider, adapter: InProcessAdapter
) -> None:
    observer = Observer(adapter, provider)
    send(provider, *["fail"] * 6)
    adapter.drain()
    wait_for(
        lambda: adapter.poll() and observer.status()["failed_5m"] == 6,
        what="a note, once a second",
    )
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
    observer = Observer(adapter, provider)

    def has_both() -> bool:
        adapter.poll()
        found = observer.status()
        return (found["workers_died_5m"], found["published_5m"]) == (1, 3)

    wait_for(has_both, what="a note, once a second")
    assert observer.status()["well"]
    assert adapter.activity.workers_died == 1
