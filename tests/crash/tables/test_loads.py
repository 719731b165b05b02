"""A driver that is killed at each step of a load: every object is in its table, and there once."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import orc
from sqlalchemy import NullPool, create_engine, text

from connector.sinks.load.sink import load_queue
from tests.cli.in_process import call
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment
from tests.runs import Run
from tests.spark.warm_java import WarmJava
from tests.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.timeout(1800)]  # many starts of Java

FILES = ("parquet", "orc", "json", "csv")
FUNCTION = """
import pathlib

def numbered(dataframe, lot):
    # exactly once, because a lot that comes again replaces what it has written
    place = pathlib.Path(__file__).parent / "by-number" / f"{lot.app_id.replace('/', '-')}-{lot.number}"
    dataframe.coalesce(1).write.mode("overwrite").json(str(place))
"""
BROKEN = """
import pathlib

HERE = pathlib.Path(__file__).parent

def broken(dataframe, lot):
    if (HERE / "broken").exists():
        raise ValueError("the lake is dry")
    (HERE / "loaded").write_text(f"{lot.number} {lot.attempt} {dataframe.count()}")
"""
STEPS = ("load.claimed:5", "load.saved:3", "load.written:6", "lot.settled:2")
"""Steps of a load. Those within a lot are in ``tests/stores/test_lots.py``, and in the crash states."""


def make(
    deploy: Deploy, java: WarmJava | None, directory: Path, *names: str, shop: str = "", **keys: Any
) -> CrashDeployment:
    """Returns a deployment with a load for each format, and a function. With names: with those only.

    Args:
        java: for the Spark of the drivers. None = each starts its own.
        shop: the URL of the database with the table. Empty = a file of SQLite.
    """
    shop = shop or f"sqlite:///{directory / 'shop.db'}"
    with create_engine(shop, poolclass=NullPool).begin() as connection:
        connection.execute(text('CREATE TABLE customer ("CustomerId" TEXT, "Name" TEXT, "Second" TEXT)'))
    formats = [{"format": one, "path": f"./lake/{one}"} for one in (*FILES, "delta")]
    formats.append({"format": "table", "table": "shop.customer"})
    loads = [{"object": "Customer", "name": one["format"], "dataframe": one, **keys} for one in formats]
    loads.append({"object": "Customer", "name": "numbered", "load": "loads:numbered", **keys})
    loads = [one for one in loads if not names or one["name"] in names]
    made = deploy(only=loads, shop=shop, connector={"instance": "one"}, java=True)
    made.warm_java = java
    made.write("loads.py", FUNCTION)
    return made


def files(place: Path) -> Iterator[Path]:
    """The files of a table, as its readers choose them: nothing hidden."""
    for path, directories, names in os.walk(place):
        directories[:] = [name for name in directories if not name.startswith((".", "_"))]
        yield from (Path(path, name) for name in names if name.startswith("part-"))


def parquet_ids(place: Path) -> Iterable[str]:
    for file in files(place):
        yield from pq.ParquetFile(file).read(["CustomerId"])["CustomerId"].to_pylist()


def orc_ids(place: Path) -> Iterable[str]:
    for file in files(place):
        yield from orc.ORCFile(file).read(["CustomerId"])["CustomerId"].to_pylist()


def _lines(place: Path) -> Iterable[str]:
    for file in files(place):
        yield from file.read_text().splitlines()


def json_ids(place: Path) -> Iterable[str]:
    return [json.loads(line)["CustomerId"] for line in _lines(place)]


def csv_ids(place: Path) -> Iterable[str]:
    return [line.partition(",")[0] for line in _lines(place)]


def tables(deployment: CrashDeployment) -> dict[str, Counter[str]]:
    """What each table holds, read without the connector: how often each id is there."""
    lake = deployment.directory / "lake"
    with create_engine(deployment.shop, poolclass=NullPool).connect() as connection:
        rows = connection.execute(text('SELECT "CustomerId" FROM customer')).scalars().all()
    readers: dict[str, Callable[[Path], Iterable[str]]] = {
        "parquet": parquet_ids,
        "orc": orc_ids,
        "json": json_ids,
        "csv": csv_ids,
    }
    place = str(lake / "delta")
    delta = (
        DeltaTable(place).to_pyarrow_table(columns=["CustomerId"])
        if DeltaTable.is_deltatable(place)
        else None
    )
    found = {
        **{name: Counter(read(lake / name)) for name, read in readers.items()},
        "delta": Counter(row["CustomerId"] for row in (delta.to_pylist() if delta is not None else ())),
        "table": Counter(rows),
        "numbered": Counter(json_ids(deployment.directory / "by-number")),
    }
    return {one["name"]: found[one["name"]] for one in deployment.only}


def sent(deployment: CrashDeployment) -> Counter[str]:
    """What every table has to hold."""
    return Counter(str(number) for number in range(1, deployment.sent + 1))


def kill(deployment: CrashDeployment, fault: str) -> None:
    run = deployment.start("--drain", fault=f"{fault}=kill")
    assert run.wait(600) == -signal.SIGKILL, f"{fault} was not reached\n{run.errors}"


def test_a_driver_that_is_killed_at_each_step_loses_and_doubles_nothing(
    deploy: Deploy, tmp_path: Path, warm_java: WarmJava
) -> None:
    deployment = make(deploy, warm_java, tmp_path, "parquet", "delta", "table", "numbered", size=25)
    for step in STEPS:
        deployment.fill("in", [""] * 30)
        kill(deployment, step)
    deployment.drain(timeout=600)
    expected = sent(deployment)
    for name, found in tables(deployment).items():
        assert (expected - found, found - expected) == (Counter(), Counter()), f"{name}: lost, doubled"
    assert deployment.count("error") == 0


@pytest.mark.parametrize(
    ("provider_type", "step"),
    [("sqlite", "lot.settled"), ("postgresql", "load.written:2")],
)
def test_a_driver_whose_messages_are_in_a_database_loses_and_doubles_nothing(
    deploy: Deploy,
    tmp_path: Path,
    provider_type: str,
    step: str,
    request: pytest.FixtureRequest,
    warm_java: WarmJava,
) -> None:
    """The table is in a database of the same kind."""
    shop = request.getfixturevalue("database") if provider_type == "postgresql" else ""
    deployment = make(deploy, warm_java, tmp_path, "parquet", "table", shop=shop, size=20)
    deployment.fill("in", [""] * 25)
    kill(deployment, step)
    deployment.drain(timeout=600)
    assert tables(deployment) == dict.fromkeys(("parquet", "table"), sent(deployment))
    assert deployment.count("error") == 0


def test_a_driver_that_is_killed_while_spark_writes_leaves_no_part(deploy: Deploy, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    table = {"format": "parquet", "path": str(lake), "partition_by": ["Name"]}
    deployment = deploy(only=[{"object": "Customer", "name": "lake", "dataframe": table}])
    deployment.fill("in", [f"n{number}" for number in range(80)])  # as many directories take a while
    run = deployment.start("--drain")
    await_parts(run, lake)
    run.signal_driver()
    run.wait()
    assert list(lake.glob("lot=*")) == []
    deployment.drain(timeout=600)
    assert Counter(parquet_ids(lake)) == sent(deployment)
    assert len(list(lake.iterdir())) == 1, "a part of a dead process is left"


def await_parts(run: Run, lake: Path) -> None:
    """Waits until Spark has begun to write a lot."""

    def has_begun() -> bool:
        assert run.process.poll() is None, run.errors
        return any(lake.glob(".lot=*.new/*/_temporary/0/*/*/*"))

    wait_for(has_begun, 240, run.state)


def test_a_service_loads_by_age_and_a_sequence_that_is_made_anew_replaces_nothing(
    deploy: Deploy, tmp_path: Path, warm_java: WarmJava
) -> None:
    deployment = make(deploy, warm_java, tmp_path, "orc", "json", "csv", "delta", "numbered", every="300ms")
    deployment.fill("in", [""] * 5)
    deployment.drain(timeout=600)
    shutil.rmtree(deployment.root)  # all messages and all numbers are lost
    shutil.rmtree(deployment.directory / ".connector")
    deployment.fill("in", [""] * 5)
    run = deployment.start()
    wait_until_equal(deployment, run)
    before = {path.name for path in (deployment.directory / "lake" / "csv").iterdir()}
    assert len(before) == 2
    assert len({name.rpartition("-")[0] for name in before}) == 2, "two sequences"
    run.stop()


def wait_until_equal(deployment: CrashDeployment, run: Run) -> None:
    """Waits until nothing waits any more, and all that was sent is in each table."""
    queues = ["in", *(load_queue("crash", "one", one["name"]).name for one in deployment.only)]
    expected = sent(deployment)

    def is_loaded() -> bool:
        if any(deployment.names(queue, folder) for queue in queues for folder in ("target", "processing")):
            return False  # to read all tables again and again takes more time than the loads
        return all(found == expected for found in tables(deployment).values())

    wait_for(is_loaded, 240, lambda: f"{tables(deployment)} {run.errors}")


def test_a_load_that_has_stopped_shows_in_the_status_until_a_reload(
    deploy: Deploy, warm_java: WarmJava
) -> None:
    load = {"object": "Customer", "name": "broken", "load": "loads:broken", "every": "100ms"}
    deployment = deploy(only=[load])
    deployment.warm_java = warm_java
    deployment.write("loads.py", BROKEN)
    (deployment.directory / "broken").touch()
    deployment.fill("in", [""] * 3)
    run = deployment.start()
    document = wait_for(lambda: (found := status(deployment))["loads"] and found, 180)
    (row,) = document["loads"]
    assert (row["subscription"], row["state"], row["lot"], row["attempt"]) == ("broken", "stopped", 1, 1)
    assert "ValueError: the lake is dry" in row["reason"]
    assert document["well"] is False
    assert any("the load of broken has stopped" in reason for reason in document["reasons"])
    errors = deployment.start(verb="errors", java=False)
    assert errors.wait() == 0
    assert "the load of broken has stopped: " in errors.errors
    (deployment.directory / "broken").unlink()
    assert deployment.start(verb="reload").wait() == 0
    wait_for((deployment.directory / "loaded").exists, 180)
    assert (deployment.directory / "loaded").read_text() == "1 2 3"
    wait_for(lambda: status(deployment)["well"], 180)
    assert status(deployment)["loads"] == []
    run.stop()


def status(deployment: CrashDeployment) -> dict[str, Any]:
    return json.loads(call(deployment.directory, "status", "--json").stdout)  # type: ignore[no-any-return]


def test_loads_go_on_in_a_new_spark(deploy: Deploy, tmp_path: Path) -> None:
    deployment = make(deploy, None, tmp_path, "parquet", "numbered", every="300ms", size=10)
    deployment.fill("in", [""] * 5)
    run = deployment.start()
    wait_until_equal(deployment, run)
    java = run.java()
    assert java is not None
    deployment.fill("in", [""] * 50)
    wait_for(lambda: len(list(tmp_path.glob("**/parquet/lot=*"))) > 1, 180)
    run.signal_one(java, signal.SIGKILL)
    wait_until_equal(deployment, run)
    assert status(deployment)["loads"] == []
    run.stop()
