"""Programs that start Spark in another way: spark-submit, a session of the process, no fast start.

Starts of Java are dear, so each program shows several of them one after the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from connector.java import find_java
from connector.spark.settings import spark_jars
from tests.cli.in_process import call
from tests.lake.events_query import ROOT
from tests.spark.standalone import executor_options, java_home_for_executors

pytestmark = pytest.mark.process
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "JAVA_TOOL_OPTIONS": executor_options(),
}


@pytest.fixture(autouse=True)
def _java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java for Spark's own launcher, which starts it here."""
    monkeypatch.setenv("JAVA_HOME", str(java_home_for_executors(find_java(), tmp_path / "java")))


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """A deployment with three orders in its input, and one task in a Spark of its own."""
    place = tmp_path / "orders"
    assert call(ROOT, "init", str(place)).returncode == 0
    with (place / "adapter.yaml").open("a") as configuration:
        configuration.write('\nspark: {master: "local[1]"}\n')
    sent = call(place, "send", "queue://orders", "--body", "order.json", "--count", "3")
    assert sent.returncode == 0, sent.stderr
    return place


def run(cwd: Path, *command: object) -> list[str]:
    """Runs a command to its end, which has to be a good one. Returns the lines of its output."""
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


SUBMITTED = """
import os, sys, threading
from pathlib import Path
from pyspark.sql import SparkSession
from connector import Adapter
from connector.errors import PipelineError
from tests.cli.in_process import call

with Adapter.from_file("adapter.yaml") as adapter:
    adapter.drain()
    print("published", adapter.summary.as_dict()["published"])
del os.environ["PYSPARK_GATEWAY_PORT"]  # from here on it is a program that has made its session itself
sent = call(Path.cwd(), "send", "queue://orders", "--body", "order.json", "--count", "2")
assert sent.returncode == 0, sent.stderr

session = SparkSession.builder.master("local[2]").config("spark.scheduler.mode", "FAIR") \\
    .config("spark.ui.enabled", "false").appName("mine").getOrCreate()
context = session.sparkContext
context.setJobGroup("mine", "a job of the program")
seen = {}
mine = threading.Thread(
    target=lambda: seen.update(sum=context.parallelize(range(100), 2).map(lambda n: n + 1).sum())
)
with Adapter.from_file("adapter.yaml", spark=session) as adapter:
    mine.start()
    adapter.drain()
    adapter.abort()
    mine.join()
    print("published", adapter.summary.as_dict()["published"])
print("sum", seen["sum"])
for name in ("spark.jobGroup.id", "spark.scheduler.pool"):
    print(name, context.getLocalProperty(name))
print("after", context.parallelize(range(4)).count())
with Adapter.from_file("adapter.yaml") as second:  # finds the session by itself
    second.drain()
print("and after", session.sparkContext.range(3).count())
context.pythonExec = sys.argv[1]  # as PYSPARK_PYTHON sets it
try:
    with Adapter.from_file("adapter.yaml", spark=session) as adapter:
        adapter.drain()
except PipelineError as error:
    print(error)
session.stop()
"""


def test_an_application_of_spark_submit_and_a_session_of_the_process_run_the_events_and_go_on(
    orders: Path, tmp_path: Path
) -> None:
    """In the end the workers have a Python without any of the packages, which is named."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python3"
    (orders / "application.py").write_text(SUBMITTED)
    submit = spark_jars().parent / "bin/spark-submit"
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    lines = run(orders, submit, *options, "application.py", python)
    assert lines[:7] == [
        "published 3",
        "published 2",
        "sum 5050",
        "spark.jobGroup.id mine",
        "spark.scheduler.pool None",
        "after 4",
        "and after 3",
    ]
    refusal = "\n".join(lines[7:])
    assert f"the workers run {python} (Python 3." in refusal
    assert "set PYSPARK_PYTHON or spark.pyspark.python; " in refusal
    assert refusal.index("set PYSPARK_PYTHON") < refusal.index("No module named")


WITHOUT = """
import sys
sys.modules["connector.spark.fast_start"] = None
from connector import Adapter
from connector.spark import early_java, launcher, pipeline
from pyspark import SparkContext

def drain():
    with Adapter.from_file("adapter.yaml") as adapter:
        adapter.drain()
        context = SparkContext.getOrCreate()
        print("published", adapter.summary.as_dict()["published"], context.appName)
        return context._jvm.java.lang.ProcessHandle.current().pid()

assert launcher.FastStart is None
first = drain()
assert drain() == first
del sys.modules["connector.spark.fast_start"]
from connector.spark.fast_start import FastStart
for module in (early_java, launcher, pipeline):
    module.FastStart = FastStart
assert drain() != first  # whose Java is still there
"""


def test_without_the_fast_start_the_adapter_runs(orders: Path) -> None:
    """With it the adapter has a Java of its own, whatever Java a stopped Spark has left."""
    assert run(orders, sys.executable, "-c", WITHOUT) == [
        "published 3 orders",
        "published 0 orders",
        "published 0 orders",
    ]
