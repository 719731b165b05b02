"""A service whose provider is away when it starts, or whose Spark is killed before the service is ready."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.conftest import Deploy
from tests.postgres import PostgresServer
from tests.runs import Run
from tests.waiting import wait_for

_RETRIES = {"RestartRetryCount": 300, "RestartRetryInterval": 0.01}


def await_text(run: Run, text: str, times: int = 1) -> None:
    wait_for(lambda: run.errors.count(text) >= times, 120, what=text)


def stop(run: Run) -> None:
    run.stop()
    run.await_gone()


def test_a_service_waits_for_a_database_that_is_away_at_the_start(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    deployment = deploy(java=False, database=own_postgres.url(), connector=_RETRIES)
    ids = deployment.fill("in", ["", ""])
    own_postgres.stop()
    run = deployment.start()
    await_text(run, "restarting the connection failed", 2)
    assert " ready [" not in run.errors
    own_postgres.start()
    wait_for(lambda: len(deployment.begun()) == len(ids), 120, what=run.errors)
    assert "connected again" in run.errors
    stop(run)
    assert deployment.begun() == dict.fromkeys(ids, 1)


def test_a_service_starts_although_its_database_is_lost_before_it_is_ready(
    own_postgres: PostgresServer, deploy: Deploy
) -> None:
    deployment = deploy(java=True, database=own_postgres.url(), connector=_RETRIES)
    ids = deployment.fill("in", ["", ""])
    run = deployment.start()
    wait_for(lambda: run.java() is not None, 120, what=run.errors)
    own_postgres.kill()
    await_text(run, "restarting the connection")
    assert " ready [" not in run.errors
    own_postgres.start()
    wait_for(lambda: len(deployment.begun()) == len(ids), 120, what=run.errors)
    stop(run)
    assert run.errors.count(" ready [") == 1
    assert deployment.begun() == dict.fromkeys(ids, 1)


@pytest.mark.parametrize("arguments", [("--once",), ("--drain",)])
def test_one_run_does_not_wait_for_a_database(
    own_postgres: PostgresServer, deploy: Deploy, arguments: tuple[str, ...]
) -> None:
    deployment = deploy(java=False, database=own_postgres.url(), connector=_RETRIES)
    own_postgres.stop()
    run = deployment.start(*arguments)
    assert run.wait(60) == 1
    assert "restarting" not in run.errors
    assert "connector: cannot use postgresql+psycopg://" in run.errors


@pytest.mark.parametrize("wrong", ["password", "database", "user"])
def test_a_service_does_not_wait_until_a_mistake_is_right(
    own_postgres: PostgresServer, deploy: Deploy, wrong: str
) -> None:
    right = {"password": own_postgres.password, "database": "/postgres", "user": "//connector:"}[wrong]
    changed = {"password": "guess", "database": "/nobodys", "user": "//nobody:"}[wrong]
    url = own_postgres.url().replace(right, changed)
    deployment = deploy(
        java=True, database=own_postgres.url(), connector=_RETRIES, provider_keys={"url": url}
    )
    run = deployment.start()
    assert run.wait(60) == 1
    assert "restarting" not in run.errors
    assert "correct the" in run.errors
    assert run.java() is None
    assert "guess" not in run.errors


def test_a_signal_ends_the_wait_for_a_database(own_postgres: PostgresServer, deploy: Deploy) -> None:
    deployment = deploy(
        java=False,
        database=own_postgres.url(),
        connector={"RestartRetryCount": 9, "RestartRetryInterval": 60},
    )
    own_postgres.stop()
    run = deployment.start()
    await_text(run, "restarting the connection failed")
    stop(run)
    assert "connected again" not in run.errors


def test_the_last_line_says_that_a_database_stayed_away(own_postgres: PostgresServer, deploy: Deploy) -> None:
    deployment = deploy(
        java=False,
        database=own_postgres.url(),
        connector={"RestartRetryCount": 2, "RestartRetryInterval": 0},
    )
    own_postgres.stop()
    run = deployment.start()
    assert run.wait(60) == 1
    last = run.errors.splitlines()[-1]
    assert last.startswith("connector: cannot use postgresql+psycopg://")
    assert "; 2 restarts of the connection failed (RestartRetryCount), the last one with: " in last


def test_a_service_starts_although_java_is_killed_before_it_is_ready(deploy: Deploy) -> None:
    deployment = deploy(java=True, connector=_RETRIES)
    ids = deployment.fill("in", ["", ""])
    run = deployment.start()
    java = wait_for(run.java, 120, what=run.errors)
    assert java is not None
    run.signal_one(java, signal.SIGKILL)
    wait_for(lambda: deployment.ids("archive") == dict.fromkeys(ids, 1), 120, what=run.errors)
    assert "was ended by signal 9" in run.errors
    stop(run)
    assert deployment.leftovers() == []


def test_java_that_cannot_start_ends_a_service_at_once(deploy: Deploy) -> None:
    options = {"conf": {"spark.driver.extraJavaOptions": "-javaagent:/no/such.jar"}}
    deployment = deploy(java=True, connector=_RETRIES, spark=options)
    run = deployment.start()
    assert run.wait(60) == 1
    assert "restarting" not in run.errors


def test_a_service_starts_although_its_workers_are_killed_before_it_is_ready(deploy: Deploy) -> None:
    deployment = deploy(java=True, connector=_RETRIES)
    ids = deployment.fill("in", ["", ""])
    run = deployment.start()

    def workers() -> list[int]:
        return [pid for pid in run.members() if _runs(pid, "connector.spark.daemon")]

    for pid in wait_for(workers, 120, what=run.errors):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: deployment.ids("archive") == dict.fromkeys(ids, 1), 120, what=run.errors)
    stop(run)
    assert deployment.leftovers() == []


def _runs(pid: int, text: str) -> bool:
    """Whether the command of a process contains a text."""
    try:
        return text in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
