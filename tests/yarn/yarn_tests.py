"""An adapter whose events are processed by executors in containers of YARN; ``script/test-yarn`` runs it.

The cluster is real, but small: its resource manager and its node manager are threads of one Java.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.java import find_java
from connector.spark.settings import spark_jars
from tests.crash.harness import CrashDeployment, deployments
from tests.spark.standalone import java_home_for_executors
from tests.waiting import wait_for
from tests.yarn.cluster import MiniYarnCluster

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniYarnCluster]:
    cluster = MiniYarnCluster(tmp_path_factory.mktemp("yarn"), ROOT / ".venv/yarn-jars")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def deployment(
    yarn: MiniYarnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CrashDeployment]:
    home = java_home_for_executors(find_java(), tmp_path / "java")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.configuration))
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    conf = {
        "spark.yarn.jars": f"local:{spark_jars()}/*",  # the node has PySpark: nothing is copied
        "spark.yarn.stagingDir": f"file://{tmp_path / 'staging'}",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.yarn.am.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.JAVA_HOME": str(home),
        "spark.yarn.appMasterEnv.JAVA_HOME": str(home),
    }
    with deployments(tmp_path) as make:
        yield make(inputs=("a", "b"), spark={"master": "yarn", "conf": conf})


def test_events_are_published_in_containers_with_what_was_shipped(deployment: CrashDeployment) -> None:
    ids = [i for queue in ("a", "b") for i in deployment.fill(queue, [""] * 50)]
    run = deployment.start("--drain", "--json")
    assert run.wait(180) == 0, run.errors
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    assert deployment.begun() == dict.fromkeys(ids, 1)
    assert deployment.leftovers() == []


def test_an_executor_that_is_killed_costs_no_message(deployment: CrashDeployment) -> None:
    ids = deployment.fill("a", [""] * 20 + ["gate:1"] + [""] * 20) + deployment.fill("b", [""] * 20)
    run = deployment.start("--drain", "--json")
    runner = wait_for(lambda: deployment.reached("1"), 180)[0]
    executor = _executor_of(runner)
    os.kill(executor, signal.SIGKILL)
    deployment.open("1")
    assert run.wait(180) == 0, run.errors
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
    repeated = {i: n for i, n in deployment.begun().items() if n > 1}
    assert len(repeated) <= 2
    assert deployment.leftovers() == []


def _executor_of(pid: int) -> int:
    """The Java process that a worker descends from."""
    while Path(f"/proc/{pid}/comm").read_text().strip() != "java":
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


SUBMITTED = """
from connector import Adapter

with Adapter.from_file("adapter.yaml") as adapter:
    adapter.drain()
    print("published", adapter.summary.as_dict()["published"])
"""


def test_spark_submit_starts_the_adapter_on_the_cluster(deployment: CrashDeployment) -> None:
    ids = deployment.fill("a", [""] * 20)
    (deployment.directory / "application.py").write_text(SUBMITTED)
    settings = [f"--conf={name}={value}" for name, value in deployment.spark["conf"].items()]
    deployment.spark = {"master": "local[1]"}  # spark-submit decides
    deployment.configure()
    done = subprocess.run(
        [spark_jars().parent / "bin/spark-submit", "--master", "yarn", *settings, "application.py"],
        cwd=deployment.directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "published 20" in done.stdout.splitlines()
    assert deployment.ids("archive") == dict.fromkeys(ids, 1)
