"""A load whose driver or Java is killed: every object is in its table, and there once.

Each step of a load, with all kinds of tables: ``tests/lake/test_loads.py``. Executors and whole trees of
processes: ``test_cluster.py``.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from connector.service.adapter import Adapter
from connector.spark.pipeline import SparkPipeline
from connector.status import ReturnCode
from tests.cli.in_process import call
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.runs import Run
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.timeout(1800)]  # many starts of Java


def files(place: Path) -> Iterator[Path]:
    """The files of a table, as its readers choose them: nothing hidden."""
    for path, directories, names in os.walk(place):
        directories[:] = [name for name in directories if not name.startswith((".", "_"))]
        yield from (Path(path, name) for name in names if name.startswith("part-"))


def parquet_ids(place: Path) -> Iterable[str]:
    for file in files(place):
        yield from pq.ParquetFile(file).read(["CustomerId"])["CustomerId"].to_pylist()


def sent(deployment: CrashDeployment) -> Counter[str]:
    """What every table has to hold."""
    return Counter(str(number) for number in range(1, deployment.sent + 1))


def test_loads_go_on_in_a_new_spark_and_what_dies_while_spark_writes_leaves_no_part(
    deploy: Deploy, tmp_path: Path, local: SparkPipeline
) -> None:
    """First Java dies, then the driver, each time in the middle of a lot."""
    lake = tmp_path / "lake"
    table = {"format": "parquet", "path": str(lake), "partition_by": ["Name"]}
    load = {"object": "Customer", "name": "lake", "dataframe": table, "every": "300ms"}
    deployment = deploy(only=[load], connector={"instance": "one"}, java=True)
    names = [f"n{number}" for number in range(60)]  # as many directories take a while
    deployment.fill("in", names)
    run = deployment.start()
    await_parts(run, lake)
    java = run.java()
    assert java is not None
    run.signal_one(java, signal.SIGKILL)
    wait_for(
        lambda: list(lake.glob("lot=*")) and Counter(parquet_ids(lake)) == sent(deployment), 240, run.state
    )
    assert json.loads(call(deployment.directory, "status", "--json").stdout)["loads"] == []
    before = list(lake.glob("lot=*"))
    deployment.fill("in", names)
    await_parts(run, lake)
    run.signal_driver()
    run.wait()
    assert list(lake.glob("lot=*")) == before
    with Adapter.from_file(deployment.directory / "adapter.yaml", spark=local.session()) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert Counter(parquet_ids(lake)) == sent(deployment)
    assert {path.name[:4] for path in lake.iterdir()} == {"lot="}, "a part of a dead process is left"


def await_parts(run: Run, lake: Path) -> None:
    """Waits until Spark has begun to write a lot."""

    def has_begun() -> bool:
        assert run.process.poll() is None, run.errors
        return any(lake.glob(".lot=*.new/*/_temporary/0/*/*/*"))

    wait_for(has_begun, 240, run.state)
