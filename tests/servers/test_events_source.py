"""The source ``events`` of Spark at real brokers: each message is one row, also after kills."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers.conftest import AT_ARTEMIS, in_turn
from tests.spark.events_query import run

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment


pytestmark = pytest.mark.process


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


@in_turn("fault", "lot.row:5", "settle.committing:2")
def test_a_queue_of_a_broker_becomes_a_table(
    broker: Broker, deploy: Deploy, tmp_path: Path, fault: str
) -> None:
    deployment = deploy(broker)
    deployment.fill(25)
    status, _, _ = run(tmp_path, task(deployment, tmp_path, "query"), fault=f"{fault}=kill")
    assert status != 0
    status, said, errors = run(tmp_path, task(deployment, tmp_path, "query", "rows"))
    assert status == 0, errors
    assert sorted(map(int, said["1 rows"])) == list(range(25))
    assert sorted(map(int, deployment.customers(f"{deployment.name}.archive"))) == list(range(25))


@AT_ARTEMIS
def test_all_that_waits_is_read_in_lots_of_a_transaction(
    broker: Broker, deploy: Deploy, tmp_path: Path
) -> None:
    deployment = deploy(broker)
    deployment.fill(600)
    query = task(deployment, tmp_path, "query", "rows")
    query["options"]["maxMessagesPerTrigger"] = "10000"
    status, said, errors = run(tmp_path, query)
    assert status == 0, errors
    assert sorted(map(int, said["1 rows"])) == list(range(600))
