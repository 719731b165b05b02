"""Spark at real brokers: the source ``events``, and loads. Each message is one row, also after kills."""

from __future__ import annotations

import signal
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from connector.spark.pipeline import SparkPipeline
from tests.lake.events_query import run_here
from tests.servers.conftest import AT_BROKER_J, in_turn
from tests.spark.conftest import local, printed

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

__all__ = ["local", "printed"]


@in_turn("fault", "lot.row:5", "settle.committing:2")
def test_a_queue_of_a_broker_becomes_a_table(
    broker: Broker, deploy: Deploy, tmp_path: Path, local: SparkPipeline, fault: str
) -> None:
    deployment = deploy(broker)
    deployment.fill(25)
    options = {"config": str(deployment.directory / "adapter.yaml"), "name": "to-lake", "object": "Customer"}
    options |= {"destination": f"queue://{deployment.input}", "maxMessagesPerTrigger": "10"}
    query: dict[str, Any] = {"options": options, "table": str(tmp_path / "lake")}
    query["checkpoint"] = str(tmp_path / "checkpoint")
    run = partial(run_here, local.session())
    said = run({**query, "steps": [("fails", {})]}, fault=f"{fault}=kill")
    assert said["0 fails"], "the fault was not reached"
    said = run({**query, "steps": [("query", {}), ("rows", {})]})
    assert sorted(map(int, said["1 rows"])) == list(range(25))
    assert sorted(map(int, deployment.customers(deployment.archive))) == list(range(25))


@AT_BROKER_J
@pytest.mark.process
def test_a_load_that_is_killed_when_its_table_is_written_loses_and_doubles_nothing(
    broker: Broker, deploy: Deploy
) -> None:
    """More places of kills: tests/lake/test_loads.py."""
    deployment, count = deploy(broker), 25
    table = {"format": "parquet", "path": "./lake"}
    deployment.subscribe({"object": "Customer", "name": "lake", "dataframe": table, "size": 10})
    deployment.fill(count)
    run = deployment.start("--drain", fault="settle.committing:2=kill", java=True)
    assert run.wait(200) == -signal.SIGKILL, run.errors[-3000:]
    run = deployment.start("--drain", java=True)
    assert run.wait(200) == 0, run.errors[-3000:]
    files = (deployment.directory / "lake").glob("lot=*/**/*.parquet")
    found = (pq.ParquetFile(file).read(["CustomerId"])["CustomerId"].to_pylist() for file in files)
    expected = dict.fromkeys(map(str, range(count)), 1)
    assert Counter(name for names in found for name in names) == expected
    assert Counter(deployment.customers(deployment.archive)) == expected
    assert deployment.leftovers() == []
