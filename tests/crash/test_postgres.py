"""Adapters on PostgreSQL whose server is killed."""

from __future__ import annotations

import signal

from tests.crash.conftest import Deploy
from tests.crash.database import DatabaseQueues
from tests.crash.harness import Deployment
from tests.postgres import PostgresServer
from tests.waiting import wait_for

JAVA = False

KILLS = 3


def test_a_server_that_is_killed_makes_no_event_run_twice(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    deployment = deploy(database=own_postgres.url(), connector={"PollQuantity": 40})
    ids = deployment.send("in", ["sleep:0.02"] * 300)
    run = deployment.start()
    for number in range(1, KILLS + 1):
        _await_deliveries(deployment, 50 * number)
        own_postgres.kill()
        own_postgres.start()
    _await_deliveries(deployment, 300)
    run.signal_driver(signal.SIGTERM)
    assert run.wait() == 0, run.errors
    deployment.drain()
    assert deployment.begun() == dict.fromkeys(ids, 1), run.errors
    assert DatabaseQueues(own_postgres.url()).count("archive") == 300, "with connections of its own"
    assert run.errors.count("connected again") >= KILLS


def _await_deliveries(deployment: Deployment, number: int) -> None:
    wait_for(lambda: sum(deployment.begun().values()) >= number, 120, f"{number} deliveries")
