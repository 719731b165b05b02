"""A service whose provider is away when it starts, or whose Spark is killed before the service is ready."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.crash.conftest import Deploy
from tests.postgres import PostgresServer
from tests.runs import Run
from tests.waiting import wait_for

_RETRIES = {"RestartRetryCount": 300, "RestartRetryInterval": 0.01}


def stop(run: Run) -> None:
    run.stop()
    run.await_gone()


def workers_of(run: Run) -> list[int]:
    """The daemon of Spark's workers, and the workers."""
    return [pid for pid in run.members() if _runs(pid, "connector.spark.daemon")]


def test_a_service_waits_for_a_database_that_is_away_at_the_start(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    wait_for_the_database(own_postgres, deploy, java=False)


def wait_for_the_database(own_postgres: PostgresServer, deploy: Deploy, java: bool) -> None:
    """Starts a service without its database, which comes later.

    With Spark all is killed before it is ready: Java, then the database, then the workers.

    The database is lost while the second Java starts, so that the service has seen the database.
    """
    deployment = deploy(java=java, database=own_postgres.url(), connector=_RETRIES)
    ids = deployment.fill("in", ["", ""])
    if not java:
        own_postgres.stop()
    run = deployment.start()
    if java:
        first = wait_for(run.java, 120, what=lambda: run.errors)
        run.signal_one(first, signal.SIGKILL)
        wait_for(lambda: run.java() not in (None, first), 120, what=lambda: run.errors)
        own_postgres.kill()
        for pid in wait_for(lambda: workers_of(run), 120, what=lambda: run.errors):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert "was ended by signal 9" in run.errors
    run.await_text("restarting the connection", 2)
    assert " ready [" not in run.errors
    own_postgres.start()
    wait_for(lambda: len(deployment.begun()) == len(ids), 120, what=lambda: run.errors)
    stop(run)
    assert run.errors.count(" ready [") == 1
    assert deployment.begun() == dict.fromkeys(ids, 1)


def test_one_run_does_not_wait_for_a_database_and_a_signal_ends_the_wait_of_a_service(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    patience = {"RestartRetryCount": 9, "RestartRetryInterval": 60}
    deployment = deploy(database=own_postgres.url(), connector=patience)
    own_postgres.stop()
    for argument in ("--once", "--drain"):
        run = deployment.start(argument)
        assert run.wait(60) == 1
        assert "restarting" not in run.errors
        assert "connector: cannot use postgresql+psycopg://" in run.errors
    run = deployment.start()
    run.await_text("restarting the connection failed")
    stop(run)
    assert "connected again" not in run.errors


def _runs(pid: int, text: str) -> bool:
    """Whether the command of a process contains a text."""
    try:
        return text in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
