"""The source ``events`` of Spark at real brokers: each message is one row, also after kills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connector.spark.pipeline import SparkPipeline
from tests.servers.conftest import AT_ARTEMIS, in_turn
from tests.spark.conftest import local, printed
from tests.spark.events_query import run_here

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment


__all__ = ["local", "printed"]

Run = Callable[..., dict[str, Any]]


def task(deployment: BrokerDeployment, directory: Path, *steps: str) -> dict[str, Any]:
    return {
        "options": {
            "config": str(deployment.directory / "adapter.yaml"),
            "destination": f"queue://{deployment.input}",
            "name": "to-lake",
            "object": "Customer",
            "maxMessagesPerTrigger": "10",
        },
        "table": str(directory / "lake"),
        "checkpoint": str(directory / "checkpoint"),
        "steps": [(step, {}) for step in steps],
    }


@pytest.fixture
def run(local: SparkPipeline) -> Run:
    """Runs the steps of a program in the Spark of this process."""
    return partial(run_here, local.session())


@in_turn("fault", "lot.row:5", "settle.committing:2")
def test_a_queue_of_a_broker_becomes_a_table(
    broker: Broker, deploy: Deploy, tmp_path: Path, run: Run, fault: str
) -> None:
    deployment = deploy(broker)
    deployment.fill(25)
    said = run(task(deployment, tmp_path, "fails"), fault=f"{fault}=kill")
    assert said["0 fails"], "the fault was not reached"
    said = run(task(deployment, tmp_path, "query", "rows"))
    assert sorted(map(int, said["1 rows"])) == list(range(25))
    assert sorted(map(int, deployment.customers(deployment.archive))) == list(range(25))


@AT_ARTEMIS
def test_all_that_waits_is_read_in_lots_of_a_transaction(
    broker: Broker, deploy: Deploy, tmp_path: Path, run: Run
) -> None:
    deployment = deploy(broker)
    deployment.fill(600)
    query = task(deployment, tmp_path, "query", "rows")
    query["options"]["maxMessagesPerTrigger"] = "10000"
    assert sorted(map(int, run(query)["1 rows"])) == list(range(600))
