"""Adapters on PostgreSQL: the server, the driver, its group and its workers are killed and stopped."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.providers.sql.database import Settings
from connector.providers.sql.provider import SqlProvider
from tests.crash.conftest import Deploy
from tests.crash.harness import Deployment, wait_for
from tests.postgres import PostgresServer

JAVA = False

KILLS = 3
TASKS = 2
"""That run at a time; each may have one event at work."""
IN_A_TASK = {"begin": 5, "deliver": 9, "done": 3}
"""Which time a place is reached: somewhere in the middle of a batch."""
DeployOn = Callable[..., Deployment]


class Queues:
    """The queues of a deployment in a database."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    @property
    def _provider(self) -> SqlProvider:
        """With connections of its own: those of before end with the server."""
        return SqlProvider(Settings(self._server.url()))

    def send(self, names: Sequence[str]) -> None:
        """Sends a customer for each of some names to the input."""
        bodies = (
            {"BusinessObject": "Customer", "Verb": "Create", "CustomerId": str(number), "Name": name}
            for number, name in enumerate(names)
        )
        connection = self._provider.connect()
        messages = [Message(body=json.dumps(body).encode()) for body in bodies]
        connection.send(parse_destination("queue://in"), messages)
        connection.close()

    def count(self, queue: str) -> int:
        """How many messages wait in a queue."""
        return self._provider.waiting(parse_destination(f"queue://{queue}")).number


@pytest.fixture
def deploy_on(deploy: Deploy) -> DeployOn:
    def make(server: PostgresServer, **settings: object) -> Deployment:
        return deploy(provider={"type": "sql", "url": server.url()}, **settings)

    return make


def test_a_server_that_is_killed_makes_no_event_run_twice(
    own_postgres: PostgresServer, deploy_on: DeployOn
) -> None:
    deployment = deploy_on(own_postgres, connector={"PollQuantity": 40})
    queues = Queues(own_postgres)
    queues.send(["sleep:0.02"] * 300)
    run = deployment.start()
    for number in range(1, KILLS + 1):
        _await_deliveries(deployment, 50 * number)
        own_postgres.kill()
        own_postgres.start()
    _await_deliveries(deployment, 300)
    run.signal_driver(signal.SIGTERM)
    assert run.wait() == 0, run.errors
    deployment.drain()
    assert Counter(deployment.begun().values()) == {1: 300}, run.errors
    assert queues.count("archive") == 300
    assert run.errors.count("connected again") >= KILLS


@pytest.mark.parametrize("whole_group", [False, True])
def test_what_a_killed_adapter_has_begun_comes_again_and_nothing_else(
    own_postgres: PostgresServer, deploy_on: DeployOn, whole_group: bool
) -> None:
    """A driver alone is killed while its tasks go on, or all of it."""
    deployment = deploy_on(own_postgres)
    queues = Queues(own_postgres)
    queues.send([""] * 60)
    for place, nth in IN_A_TASK.items():
        run = deployment.start("--drain", fault=f"{place}:{nth}=pause")
        run.await_pause(place)
        run.kill_while_paused(whole_group=whole_group)
    deployment.drain()
    assert queues.count("archive") == 60
    _assert_repeated_as_promised(deployment, 60, TASKS * len(IN_A_TASK) if whole_group else 0)


def test_a_worker_that_is_killed_repeats_the_event_at_work_alone(
    own_postgres: PostgresServer, deploy_on: DeployOn
) -> None:
    deployment = deploy_on(own_postgres, connector={"max_attempts": 2})
    queues = Queues(own_postgres)
    queues.send(["kill" if number % 20 == 7 else "" for number in range(60)])
    deployment.drain()
    assert (queues.count("archive"), queues.count("error")) == (57, 3)
    _assert_repeated_as_promised(deployment, 60, 3)


def _assert_repeated_as_promised(deployment: Deployment, number: int, repeated: int) -> None:
    """Nothing is lost, and what is repeated says so.

    Args:
        number: of the messages.
        repeated: deliveries, at most.
    """
    seen = deployment.begun()
    assert len(seen) == number
    assert sum(seen.values()) - number <= repeated
    before: set[str] = set()
    for delivery in deployment.deliveries():
        if delivery.word == "begin":
            assert delivery.count >= 2 or delivery.id not in before
            before.add(delivery.id)


def _await_deliveries(deployment: Deployment, number: int) -> None:
    wait_for(lambda: sum(deployment.begun().values()) >= number, 120, f"{number} deliveries")
