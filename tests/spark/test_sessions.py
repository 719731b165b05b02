"""The Spark that an adapter runs on: a session of the process, spark-submit, and one without the fast start.

Each case is a process of its own, because PySpark has one context a process.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from connector.errors import PipelineError
from connector.java import find_java
from connector.spark.pipeline import SparkPipeline
from connector.spark.settings import spark_jars
from tests.cli.in_process import call
from tests.spark.conftest import Settings, deployment
from tests.spark.standalone import executor_options, java_home_for_executors

ROOT = Path(__file__).parents[2]
_PROCESS = pytest.mark.process
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
    """A deployment with three orders in its input."""
    place = tmp_path / "orders"
    assert call(ROOT, "init", str(place)).returncode == 0
    sent = call(place, "send", "queue://orders", "--body", "order.json", "--count", "3")
    assert sent.returncode == 0, sent.stderr
    return place


def run(cwd: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs Python to its end, which has to be a good one."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, **ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


GIVEN = """
import threading
from pyspark.sql import SparkSession
from connector import Adapter

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
print("and after", session.range(3).count())
session.stop()
with Adapter.from_file("adapter.yaml") as third:  # the Java of the stopped session is still there
    third.drain()
    print(type(context).getOrCreate().appName)
"""


@_PROCESS
def test_a_session_of_the_process_runs_the_events_and_goes_on(orders: Path) -> None:
    done = run(orders, "-c", GIVEN)
    lines = done.stdout.splitlines()
    assert lines == [
        "published 3",
        "sum 5050",
        "spark.jobGroup.id mine",
        "spark.scheduler.pool None",
        "after 4",
        "and after 3",
        "orders",
    ]


OTHER_PYTHON = """
from pyspark.sql import SparkSession
from connector import Adapter
from connector.errors import PipelineError

session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
try:
    with Adapter.from_file("adapter.yaml", spark=session) as adapter:
        adapter.drain()
except PipelineError as error:
    print(error)
session.stop()
"""


@_PROCESS
def test_workers_of_another_python_are_named(orders: Path, tmp_path: Path) -> None:
    """A session whose workers have a Python without any of the packages."""
    venv.create(tmp_path / "bare", with_pip=False)
    python = tmp_path / "bare" / "bin" / "python3"
    done = run(orders, "-c", OTHER_PYTHON, PYSPARK_PYTHON=str(python))
    assert f"the workers run {python} (Python 3." in done.stdout
    assert "set PYSPARK_PYTHON or spark.pyspark.python; " in done.stdout
    assert done.stdout.index("set PYSPARK_PYTHON") < done.stdout.index("No module named")


SUBMITTED = """
from connector import Adapter

with Adapter.from_file("adapter.yaml") as adapter:
    adapter.drain()
    print("published", adapter.summary.as_dict()["published"])
"""


@_PROCESS
def test_an_application_that_spark_submit_has_started(orders: Path) -> None:
    (orders / "application.py").write_text(SUBMITTED)
    submit = spark_jars().parent / "bin/spark-submit"
    done = subprocess.run(
        [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", "application.py"],
        cwd=orders,
        env={
            **os.environ,
            **ENVIRONMENT,
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "published 3" in done.stdout.splitlines()


WITHOUT = """
import sys
sys.modules["connector.spark.fast_start"] = None
from connector import Adapter
from connector.spark import launcher

assert launcher.FastStart is None
for _ in range(2):
    with Adapter.from_file("adapter.yaml") as adapter:
        adapter.drain()
        print("published", adapter.summary.as_dict()["published"])
"""


@_PROCESS
def test_without_the_fast_start_the_adapter_runs(orders: Path) -> None:
    done = run(orders, "-c", WITHOUT)
    assert done.stdout.splitlines() == ["published 3", "published 0"]


class ConnectSession:
    """Stands for a session of Spark Connect: a real one needs packages that are not installed."""


ConnectSession.__module__ = "pyspark.sql.connect.session"


@pytest.mark.parametrize(
    ("session", "words"), [(ConnectSession(), "Spark Connect"), ("spark", "builtins.str is no SparkSession")]
)
def test_what_is_no_session_that_can_run_jobs_is_refused(session: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=words):
        SparkPipeline(Settings(), deployment(tmp_path), "test", session=session).start()


PRIVATE = {
    "SparkContext._gateway",
    "SparkContext._jvm",
    "SparkContext._lock",
    "SparkContext._active_spark_context",
    "SparkContext._ensure_initialized",
    "SparkContext._jsc",
    "SparkContext._accumulatorServer",
    "_PYSPARK_DRIVER_CONN_INFO_PATH",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "PYSPARK_PIN_THREAD",
}
"""The private names of PySpark that the fast start uses. No other file uses any."""


def test_the_private_names_of_pyspark_are_in_one_file_and_all_named_here() -> None:
    from pyspark import SparkContext, core, java_gateway

    source = Path(core.context.__file__).read_text() + Path(java_gateway.__file__).read_text()
    for name in PRIVATE:
        assert name.rpartition(".")[2] in source, f"PySpark has no {name} any more"
    found = {}
    for file in (ROOT / "connector").rglob("*.py"):
        own: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if (isinstance(node, ast.Attribute) and hasattr(SparkContext, node.attr)) or (
                isinstance(node, ast.Attribute) and f"self.{node.attr}" in source
            ):
                if node.attr.startswith("_") and not node.attr.startswith("__") and _is_of_pyspark(node):
                    own.add(f"SparkContext.{node.attr}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                own |= {node.value} & PRIVATE
        if own:
            found[file.name] = own
    submitted = found.pop("session.py")
    assert submitted == {"PYSPARK_GATEWAY_PORT"}, "it is only asked whether spark-submit has set it"
    assert found == {"fast_start.py": PRIVATE}


def _is_of_pyspark(node: ast.Attribute) -> bool:
    """Whether it belongs to a context, and not to an object of ours."""
    return not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
