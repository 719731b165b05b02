"""Loads at real brokers: every object is in its table, and there once, whatever is killed."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from tests.servers.conftest import AT_BROKER_J

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy
    from tests.servers.deployment import BrokerDeployment

pytestmark = [pytest.mark.process, pytest.mark.timeout(900), AT_BROKER_J]  # five starts of Java

EACH = 15
STEPS = ("load.saved:2", "load.written", "settle.committing:2")


def rows(lake: Path) -> Counter[str]:
    """How often each customer is in the table, read without the connector."""
    found = (pq.ParquetFile(file).read(["CustomerId"]) for file in lake.glob("lot=*/**/*.parquet"))
    return Counter(name for table in found for name in table["CustomerId"].to_pylist())


def load_only(deployment: BrokerDeployment) -> Path:
    """Replaces the subscriptions by one with a load. Returns the directory of its table."""
    table = {"format": "parquet", "path": "./lake"}
    deployment.subscribe({"object": "Customer", "name": "lake", "dataframe": table, "size": 10})
    return deployment.directory / "lake"


def test_a_driver_that_is_killed_at_each_step_loses_and_doubles_nothing(
    broker: Broker, deploy: Deploy
) -> None:
    deployment = deploy(broker)
    lake = load_only(deployment)
    for number, step in enumerate(STEPS):
        deployment.fill(EACH, first=number * EACH)
        run = deployment.start("--drain", fault=f"{step}=kill", java=True)
        assert run.wait(200) == -signal.SIGKILL, f"{step} was not reached\n{run.errors[-3000:]}"
    run = deployment.start("--drain", java=True)
    assert run.wait(200) == 0, run.errors[-3000:]
    expected = dict.fromkeys(map(str, range(len(STEPS) * EACH)), 1)
    assert rows(lake) == expected
    assert Counter(deployment.customers(deployment.archive)) == expected
    assert deployment.leftovers() == []
