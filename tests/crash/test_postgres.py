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


def _await_deliveries(deployment: Deployment, number: int) -> None:
    wait_for(lambda: sum(deployment.begun().values()) >= number, 120, f"{number} deliveries")
