"""Adapters on real brokers lose nothing, whatever dies."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.runs import parent_of
from tests.servers.conftest import AT_BROKER_J, in_turn

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

pytestmark = pytest.mark.process

_WORKERS = 2


@AT_BROKER_J
def test_a_service_takes_what_comes(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    service = deployment.start(java=True)
    deployment.fill(25)
    deployment.wait_for_calls(25)
    service.stop()
    deployment.finish(25)


@in_turn("number", signal.SIGTERM, signal.SIGINT)
def test_a_signal_stops_the_service_in_order(broker: Broker, deploy: Deploy, number: signal.Signals) -> None:
    deployment = deploy(broker)
    deployment.fill(12, name="sleep:0.3")
    service = deployment.start(java=number is signal.SIGTERM)
    deployment.wait_for_calls(1)
    service.signal_driver(signal.SIGHUP)  # ignored
    deployment.wait_for_calls(3)
    service.stop(number)
    deployment.finish(12)


@in_turn("order", "destination", "none")
def test_the_adapter_is_killed_with_all_its_processes(broker: Broker, deploy: Deploy, order: str) -> None:
    deployment = deploy(broker, connector={"order": order})
    deployment.fill(60, name="sleep:0.05")
    for kill in range(3):
        service = deployment.start(java=kill == 0)
        deployment.wait_for_calls(len(deployment.calls()) + 10)
        service.kill_everything()
    deployment.finish(60, twice=3 * _WORKERS)


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


@in_turn("order, in_progress", ("none", False), ("destination", True))
def test_events_outlast_an_application_that_is_away_and_kills_of_everything(
    broker: Broker, deploy: Deploy, order: str, *, in_progress: bool
) -> None:
    deployment = deploy(
        broker,
        in_progress=in_progress,
        connector={"order": order, "RestartRetryCount": 1000, "RestartRetryInterval": 0.02},
        store={"retry_later": {"first": "300ms", "most": "300ms", "attempts": 1000}},
    )
    (deployment.directory / "away").touch()
    deployment.fill(12, name="away:away")
    for kill in range(4):
        service, beside = deployment.start(), deployment.start()
        deployment.wait_for_log(" ready ", 2 * (kill + 1))
        deployment.wait_for_more_calls(4)
        if kill == 1:
            broker.kill()
            broker.start()
            deployment.wait_for_more_calls(4)
        service.kill_everything()
        if kill == 2:
            deployment.wait_for_more_calls(4)
        beside.kill_everything()
    (deployment.directory / "away").unlink()
    (deployment.directory / "calls").unlink()
    service = deployment.start()
    deployment.wait_for_calls(12)
    service.stop()
    deployment.finish(12, twice=2)


@in_turn("killed", "process", "worker")
def test_a_killed_worker_is_replaced(broker: Broker, deploy: Deploy, killed: str) -> None:
    deployment = deploy(broker)
    deployment.fill(12, name="sleep:0.3")
    service = deployment.start(java=True)
    deployment.wait_for_calls(2)
    pid = deployment.workers()[-1]
    os.kill(pid if killed == "process" else parent_of(pid), signal.SIGKILL)
    deployment.wait_for_calls(12)
    service.stop()
    deployment.finish(12, twice=1 if killed == "process" else _WORKERS)


def test_the_broker_is_killed_and_started_again(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, connector={"RestartRetryCount": 1000, "RestartRetryInterval": 0.02})
    deployment.fill(40, name="sleep:0.05")
    service = deployment.start()
    deployment.wait_for_calls(8)
    broker.kill()
    broker.start()
    deployment.wait_for_calls(40)
    service.stop()
    deployment.finish(40, twice=_WORKERS)
