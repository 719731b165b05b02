"""An adapter on SQLite whose file another program locks."""

from __future__ import annotations

import sqlite3

import pytest

from tests.crash.conftest import Deploy
from tests.crash.harness import assert_settled_once
from tests.waiting import wait_for

JAVA = False


@pytest.fixture
def provider_type() -> str:
    return "sqlite"


def test_a_file_that_another_program_locks_for_long_costs_and_doubles_nothing(deploy: Deploy) -> None:
    deployment = deploy(
        connector={"PollQuantity": 5, "RestartRetryCount": 100, "RestartRetryInterval": 0.01},
        subscriptions=[{"object": "Customer", "name": "copy", "destination": "queue://copies"}],
    )
    ids = deployment.fill("in", ["sleep:0.02"] * 40)
    run = deployment.start(TEST_BUSY="0.2")
    wait_for(lambda: len(deployment.deliveries()) > 20, 120, "deliveries")
    other = sqlite3.connect(deployment.root / "messages.db", isolation_level=None, timeout=60)
    other.execute("BEGIN IMMEDIATE")
    wait_for(lambda: "restarting the connection failed" in run.errors, 120, "an attempt to restart")
    other.execute("ROLLBACK")
    other.close()
    wait_for(lambda: deployment.count("archive") == len(ids), 120, lambda: run.errors)
    run.stop()
    assert "database is locked: another program holds the file" in run.errors
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.count("copies") == len(ids)
    assert_settled_once(deployment, ids, kills=0)
