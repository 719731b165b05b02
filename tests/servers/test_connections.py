"""Adapters whose connections are lost in a commit, are idle, or are refused, on real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pytest

from tests.proxy import proxy_to
from tests.servers.broker import IDLE_SECONDS
from tests.servers.commit_proxy import CommitProxy
from tests.servers.conftest import AT_ARTEMIS, in_turn
from tests.waiting import wait_for

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

pytestmark = pytest.mark.process

_RETRIES = {"RestartRetryCount": 1000, "RestartRetryInterval": 0.01}


@pytest.fixture
def proxy(broker: Broker) -> Iterator[CommitProxy]:
    made = CommitProxy(broker.port)
    yield made
    made.close()


def await_cut(deployment: BrokerDeployment, proxy: CommitProxy) -> None:
    deployment.wait_for(lambda: proxy.cuts == 1, "a commit")


@in_turn("when", "after", "before")
def test_the_connection_is_lost_in_a_commit(
    broker: Broker, deploy: Deploy, proxy: CommitProxy, when: Literal["before", "after"]
) -> None:
    deployment = deploy(broker, port=proxy.port, connector=_RETRIES)
    deployment.fill(30)
    proxy.cut_next(when, behind=deployment.archive)
    service = deployment.start()
    await_cut(deployment, proxy)
    deployment.wait_for_calls(30)
    deployment.fill(5, first=30)
    deployment.wait_for_calls(35)
    service.stop()
    deployment.finish(35)


@in_turn(
    "what, when",
    *(("move", "before"), ("move", "after")),
    *(("settlement", "after"), ("settlement", "before")),
)
def test_the_connection_is_lost_in_a_commit_of_messages_in_progress(
    broker: Broker, deploy: Deploy, proxy: CommitProxy, what: str, when: Literal["before", "after"]
) -> None:
    deployment = deploy(broker, in_progress=True, port=proxy.port, connector=_RETRIES)
    deployment.fill(8)
    queue = deployment.in_progress if what == "move" else deployment.archive
    proxy.cut_next(when, behind=queue)
    service = deployment.start()
    await_cut(deployment, proxy)
    deployment.wait_for_calls(8)
    deployment.fill(4, first=8)
    deployment.wait_for_calls(12)
    service.stop()
    deployment.finish(12)


@in_turn("in_progress, end", (False, "deliver"), (False, "drop"), (True, "drop"), (True, "deliver"))
def test_a_commit_that_reaches_the_broker_late_stays_unknown_until_then(
    broker: Broker, deploy: Deploy, proxy: CommitProxy, in_progress: bool, end: str
) -> None:
    deployment = deploy(broker, in_progress=in_progress, port=proxy.port, connector=_RETRIES)
    deployment.fill(8)
    proxy.cut_next("late", behind=deployment.archive)
    service = deployment.start()
    await_cut(deployment, proxy)
    deployment.wait_for_log("connected again")
    getattr(proxy, end)()
    deployment.fill(1, first=8)
    deployment.wait_for_calls(9)
    service.stop()
    deployment.finish(9)


@in_turn("end", "deliver", "drop")
def test_messages_that_are_moved_late_are_taken_over(
    broker: Broker, deploy: Deploy, proxy: CommitProxy, end: str
) -> None:
    deployment = deploy(broker, in_progress=True, port=proxy.port, connector=_RETRIES)
    deployment.fill(8)
    proxy.cut_next("late", behind=deployment.in_progress)
    service = deployment.start()
    await_cut(deployment, proxy)
    deployment.wait_for_log("connected again")
    getattr(proxy, end)()
    deployment.wait_for_calls(8)
    service.stop()
    deployment.finish(8)


def test_an_idle_connection_lives(broker: Broker, deploy: Deploy, proxy: CommitProxy) -> None:
    options = f"amqp.idleTimeout={IDLE_SECONDS * 1000}"
    deployment = deploy(broker, port=proxy.port, options=options)
    deployment.fill(2, name=f"sleep:{IDLE_SECONDS * 1.5}")
    service = deployment.start()
    deployment.wait_for_calls(2)
    before = dict(proxy.heartbeats)
    wait_for(lambda: all(proxy.heartbeats[one] > before[one] + 3 for one in before), 120, "heartbeats")
    deployment.fill(3, first=2)
    deployment.wait_for_calls(5)
    assert "failed" not in deployment.log()
    service.stop()
    deployment.finish(5)


@AT_ARTEMIS
def test_a_service_whose_login_is_refused_tries_again(broker: Broker, deploy: Deploy) -> None:
    seconds = 1.2
    restarts = {"RestartRetryCount": 1000, "RestartRetryInterval": seconds / 60}
    with proxy_to(broker.port) as proxy:
        deployment = deploy(broker, port=proxy.port, connector=restarts)
        deployment.fill(12)
        service = deployment.start()
        deployment.wait_for_calls(12)
        with broker.other_password():
            proxy.cut()
            deployment.wait_for_log("refuses the login of user 'guest'", count=3)
        deployment.fill(3, first=12)
        deployment.wait_for_calls(15)
        service.stop()
        deployment.finish(15)
    lines = [line for line in deployment.log().splitlines() if "refuses the login" in line]
    times = [datetime.fromisoformat(line.partition(" ")[0]) for line in lines]
    assert all((later - earlier).total_seconds() > seconds / 2 for earlier, later in pairwise(times))
