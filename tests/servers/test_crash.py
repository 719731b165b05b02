"""Adapters on real brokers lose nothing, whatever dies."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import pytest

from tests.servers.commit_proxy import CommitProxy
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import Deployment

_WORKERS = 2


@pytest.fixture
def proxy(broker: Broker) -> Iterator[CommitProxy]:
    made = CommitProxy(broker.port)
    yield made
    made.close()


def finish(deployment: Deployment) -> None:
    """Drains the input, and checks that nothing is left behind."""
    deployment.run("run", "--drain")
    assert deployment.customers(deployment.input) == []
    assert deployment.marks() == []
    assert deployment.bodies("DLQ") == []
    journals = [path for path in (deployment.directory / ".connector").rglob("*journal*") if path.is_file()]
    assert journals == []


def check_all(deployment: Deployment, count: int, *, twice: int = 0) -> None:
    """Checks that each message was called and archived, and that few were called twice."""
    expected = sorted(str(number) for number in range(count))
    assert sorted(deployment.customers(f"{deployment.name}.archive")) == expected
    assert deployment.customers(f"{deployment.name}.error") == []
    calls = Counter(customer for customer, _ in deployment.calls())
    assert sorted(calls) == expected
    assert sum(calls.values()) - count <= twice, [one for one in calls.items() if one[1] > 1]
    for customer, delivery in deployment.calls():  # a second call says that it is one
        assert delivery <= calls[customer]


def test_a_service_takes_what_comes(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    service = deployment.start()
    deployment.send(25)
    deployment.wait_for_calls(25)
    service.send_signal(signal.SIGTERM)
    assert service.wait(60) == 0, deployment.log()[-3000:]
    finish(deployment)
    check_all(deployment, 25)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_service_in_order(broker: Broker, deploy: Deploy, number: signal.Signals) -> None:
    deployment = deploy(broker)
    deployment.send(12, name="sleep:0.3")
    service = deployment.start()
    deployment.wait_for_calls(1)
    service.send_signal(signal.SIGHUP)  # ignored
    deployment.wait_for_calls(3)
    service.send_signal(number)
    assert service.wait(60) == 0, deployment.log()[-3000:]
    finish(deployment)
    check_all(deployment, 12)


def test_the_adapter_is_killed_with_all_its_processes(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.send(60, name="sleep:0.05")
    for kill in range(3):
        service = deployment.start()
        deployment.wait_for_calls(len(deployment.calls()) + 13)
        deployment.kill(service)
        assert kill is not None
    finish(deployment)
    check_all(deployment, 60, twice=3 * _WORKERS)


def test_the_broker_is_killed_and_started_again(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker, connector={"RestartRetryCount": 20, "RestartRetryInterval": 0.1})
    deployment.send(40, name="sleep:0.1")
    service = deployment.start()
    deployment.wait_for_calls(8)
    broker.kill()
    broker.start()
    wait_for(
        lambda: len({customer for customer, _ in deployment.calls()}) == 40,
        120,
        f"all calls, log: {deployment.log()[-3000:]}",
    )
    service.send_signal(signal.SIGTERM)
    assert service.wait(60) == 0, deployment.log()[-3000:]
    finish(deployment)
    check_all(deployment, 40, twice=_WORKERS)


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_connection_is_lost_in_a_commit(
    broker: Broker, deploy: Deploy, proxy: CommitProxy, when: Literal["before", "after"]
) -> None:
    deployment = deploy(
        broker, port=proxy.port, connector={"RestartRetryCount": 5, "RestartRetryInterval": 0.1}
    )
    deployment.send(30)
    proxy.cut_next(when, let_pass=1)
    service = deployment.start()
    wait_for(lambda: proxy.cuts == 1, 60, f"a commit, log: {deployment.log()[-3000:]}")
    deployment.wait_for_calls(30)
    deployment.send(5, first=30)
    deployment.wait_for_calls(35)
    service.send_signal(signal.SIGTERM)
    assert service.wait(60) == 0, deployment.log()[-3000:]
    finish(deployment)
    check_all(deployment, 35)


def test_two_instances_share_the_work_and_one_dies(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    deployment.send(60, name="sleep:0.1")
    first, second = deployment.start(), deployment.start()
    deployment.wait_for_calls(15)
    deployment.kill(first)
    wait_for(
        lambda: len({customer for customer, _ in deployment.calls()}) == 60,
        120,
        f"all calls, log: {deployment.log()[-3000:]}",
    )
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0, deployment.log()[-3000:]
    finish(deployment)
    check_all(deployment, 60, twice=_WORKERS)


def test_not_active_gives_a_transaction_back(broker: Broker, deploy: Deploy) -> None:
    deployment = deploy(broker)
    (deployment.directory / "flag").touch()
    deployment.send(4)
    deployment.send(1, first=4, name="inactive:flag")
    deployment.run("run", "--once", status=1)
    (deployment.directory / "flag").unlink()
    finish(deployment)
    check_all(deployment, 5, twice=1)
