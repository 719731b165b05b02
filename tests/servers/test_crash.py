"""Adapters on real brokers lose nothing, whatever dies. tests/crashing has more places, at a fake."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.runs import parent_of
from tests.servers.conftest import RETRIES, in_turn

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

pytestmark = pytest.mark.process

_COUNT = 12
"""Messages, more than a transaction holds."""
_WORKERS = 2


@in_turn(
    "step, in_progress",
    *(("done:2", False), ("settle.finished", False)),
    *(("settle.committing", False), ("begin:2", False)),
    *(("settle.committing:3", True), ("settle.finished:3", True)),
)
def test_a_killed_adapter_loses_nothing_and_repeats_nothing_without_need(
    broker: Broker, deploy: Deploy, step: str, in_progress: bool
) -> None:
    """The whole tree of the adapter is killed. With messages in progress the first commits are the moves."""
    deployment = deploy(broker, in_progress=in_progress)
    deployment.fill(_COUNT)
    assert deployment.start(fault=f"{step}=killgroup").wait() == -signal.SIGKILL, deployment.log()[-3000:]
    deployment.finish(_COUNT, twice=_WORKERS if step == "begin:2" else 0)


@in_turn("step", "rollback", "claim.noted:2")
def test_a_done_event_of_a_transaction_that_was_rolled_back_does_not_run_again(
    broker: Broker, deploy: Deploy, step: str
) -> None:
    deployment = deploy(broker)
    flag = deployment.raise_flag()
    deployment.fill(2)
    deployment.fill(1, first=2, name="inactive:flag")
    deployment.fill(1, first=3)
    assert deployment.start(fault=f"{step}=killgroup").wait() == -signal.SIGKILL, deployment.log()[-3000:]
    flag.unlink()
    before = [customer for customer, _ in deployment.calls()].count("2")
    deployment.finish(4, twice=before, inactive=[2])
    calls = Counter(customer for customer, _ in deployment.calls())
    assert [customer for customer, number in calls.items() if number > 1] in ([], ["2"])


@in_turn("number", signal.SIGTERM, signal.SIGINT)
def test_a_signal_stops_the_service_in_order(broker: Broker, deploy: Deploy, number: signal.Signals) -> None:
    deployment = deploy(broker)
    deployment.fill(12, name="sleep:0.3")
    service = deployment.start()
    deployment.wait_for_calls(1)
    service.signal_driver(signal.SIGHUP)  # ignored
    deployment.wait_for_calls(3)
    service.stop(number)
    deployment.finish(12)


@in_turn("killed", "process", "worker")
def test_a_killed_worker_of_spark_is_replaced(broker: Broker, deploy: Deploy, killed: str) -> None:
    deployment = deploy(broker)
    deployment.fill(12, name="sleep:0.3")
    service = deployment.start(java=True)
    deployment.wait_for_calls(2)
    pid = deployment.workers()[-1]
    os.kill(pid if killed == "process" else parent_of(pid), signal.SIGKILL)
    deployment.wait_for_calls(12)
    service.stop()
    deployment.finish(12, twice=1 if killed == "process" else _WORKERS)


def test_a_service_outlasts_its_broker_and_tells_who_asks_for_its_health(
    broker: Broker, deploy: Deploy
) -> None:
    """The broker is away at the start, and is killed while events run."""
    deployment = deploy(broker, connector=RETRIES)
    deployment.change("http", listen="127.0.0.1:0")
    deployment.fill(40, name="sleep:0.05")
    broker.kill()
    service = deployment.start()

    def is_ready() -> bool:
        ready, live = (
            httpx.get(f"{url}/health/{page}", timeout=240, trust_env=False).is_success
            for page in ("ready", "live")
        )
        assert live
        return ready

    try:
        url = deployment.http_url()
        deployment.wait_for_log("restarting the connection failed", count=2)
        assert not is_ready()
        broker.start()
        deployment.wait_for_calls(8)
        assert is_ready()
        broker.kill()
        deployment.wait_for(lambda: not is_ready(), "the broker is missed")
    finally:
        broker.start()
    deployment.wait_for_calls(40)
    deployment.wait_for(is_ready, "the broker is back")
    service.stop()
    deployment.finish(40, twice=_WORKERS)


# -- what a client library has fetched -----------------------------------------------------------------------


def test_without_order_a_second_transaction_begins_while_the_first_runs(
    broker: Broker, deploy: Deploy
) -> None:
    deployment = deploy(broker, connector={"order": "none"})
    deployment.fill(1, name="gate:first")
    deployment.fill(34, first=1)
    service = deployment.start()
    second = set(map(str, range(20, 30)))  # the client library has fetched the others for the first
    deployment.wait_for(lambda: second <= {one for one, _ in deployment.calls()}, "a second transaction")
    deployment.write("open.first", "")
    service.stop()
    deployment.finish(35)


def test_one_drain_takes_also_what_was_fetched_for_a_second_transaction(
    broker: Broker, deploy: Deploy
) -> None:
    deployment = deploy(broker, connector={"order": "none", "PollQuantity": 20})
    for count in (395, 120):
        deployment.fill(count)
        deployment.work()
        assert deployment.leftovers() == []
