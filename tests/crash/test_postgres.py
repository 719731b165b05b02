"""Adapters on PostgreSQL whose server is killed."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.crash.conftest import Deploy
from tests.crash.database import DatabaseQueues
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.postgres import PostgresServer
from tests.waiting import wait_for

JAVA = False

KILLS = 3
STEPS = {
    "claim.uncommitted": 2,
    "claim": 35,
    "begin": 4,
    "deliver": 9,
    "done": 14,
    "prepare.uncommitted": 2,
    "prepare": 3,
    "settle.record": 3,
    "settle.committing": 4,
    "settle.finished": 5,
}
"""A place, and which time a process reaches it."""


def test_a_server_that_is_killed_makes_no_event_run_twice(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    deployment = deploy(database=own_postgres.url(), connector={"PollQuantity": 40})
    ids = deployment.fill("in", ["sleep:0.02"] * 300)
    run = deployment.start()
    for number in range(1, KILLS + 1):
        _await_deliveries(deployment, 50 * number)
        own_postgres.kill()
        own_postgres.start()
    _await_deliveries(deployment, 300)
    run.stop()
    deployment.drain()
    assert deployment.begun() == dict.fromkeys(ids, 1), run.errors
    assert DatabaseQueues(own_postgres.url()).count("archive") == 300, "with connections of its own"
    assert run.errors.count("connected again") >= KILLS


def test_a_server_that_is_killed_at_every_step_loses_and_doubles_nothing(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    """While a process of the adapter stands at the step. The adapter goes on when the server is back."""
    url = own_postgres.url()
    deployment = deploy(
        database=url,
        connector={"PollQuantity": 10, "RestartRetryCount": 50, "RestartRetryInterval": 0.01},
        subscriptions=[{"object": "Customer", "name": "copy", "destination": "queue://copies"}],
    )
    ids = deployment.fill("in", [""] * 150)
    run = deployment.start(fault=",".join(f"{place}:{nth}=pause" for place, nth in STEPS.items()))
    deployment.queues = DatabaseQueues(url)  # has no connection that a kill has ended
    left = set(STEPS)

    def is_done() -> bool:
        assert run.process.poll() is None, run.errors
        for mark in run.faults.iterdir():
            if mark.stem in left:
                left.remove(mark.stem)
                own_postgres.kill()
                own_postgres.start()
            mark.unlink()
        return not left and deployment.count("archive") == len(ids)

    wait_for(is_done, 120, "settled")
    run.stop()
    assert deployment.begun() == dict.fromkeys(ids, 1), run.errors
    events = [message.properties["connector_event_id"] for message in deployment.messages("copies")]
    assert sorted(map(str, events)) == sorted(ids)
    assert_settled_once(deployment, ids, kills=0)


def _await_deliveries(deployment: CrashDeployment, number: int) -> None:
    wait_for(lambda: sum(deployment.begun().values()) >= number, 120, f"{number} deliveries")


def test_a_connection_that_is_lost_in_a_commit_costs_and_doubles_nothing(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    """The commit waits for a standby that is not there. It has happened all the same when it is ended."""
    deployment = deploy(
        database=own_postgres.url(),
        connector={"PollQuantity": 5, "RestartRetryCount": 50, "RestartRetryInterval": 0.01},
        subscriptions=[{"object": "Customer", "name": "copy", "destination": "queue://copies"}],
    )
    ids = deployment.fill("in", ["sleep:0.05"] * 30)
    run = deployment.start()
    _await_deliveries(deployment, 5)
    with own_postgres.connect() as operator:
        _set_standby(operator, "nowhere")
        waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

        def has_lost_a_commit() -> bool:  # the first commits that are cut may be those of a heartbeat
            operator.execute(f"SELECT pg_terminate_backend(pid) {waiting}")
            return "in a commit, which may have happened" in run.errors

        wait_for(has_lost_a_commit, 120, lambda: run.errors)
        _set_standby(operator, "")
    deployment.queues = DatabaseQueues(own_postgres.url())
    wait_for(lambda: deployment.count("archive") == len(ids), 120, lambda: run.errors)
    run.stop()
    assert "Exception ignored" not in run.errors  # the workers got SIGTERM when the connection was made anew
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.count("copies") == len(ids)
    assert_settled_once(deployment, ids, kills=0)


def _set_standby(operator: psycopg.Connection[Any], name: str) -> None:
    operator.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    operator.execute("SELECT pg_reload_conf()")
