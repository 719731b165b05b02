"""The adapter, its loads and its source on a Spark cluster: a real master and two workers on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.harness import assert_settled_once, deployments, on
from tests.lake.events_query import ROOT
from tests.lake.events_query import run as run_alone
from tests.lake.test_events_source import count, fill, names, place, task
from tests.servers.spark.test_loads import await_parts, parquet_ids, sent
from tests.spark.conftest import deployment
from tests.spark.standalone import StandaloneCluster, executor_options
from tests.tables import Table

__all__ = ["place"]

pytestmark = [pytest.mark.process, pytest.mark.timeout(1800)]  # many starts of Java, on a busy machine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A master with two workers, whose directory has a short name because sockets are made there."""
    made = StandaloneCluster(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


DRIVER = """
import json, sys
from pathlib import Path
from connector.errors import PipelineError
from connector.events.run import module_versions
from connector.spark import fast_start, pipeline as pipelines
from connector.spark.pipeline import SparkPipeline
from tests.spark.conftest import Settings
from tests.spark.standalone import executor_options
from tests.waiting import wait_for

pipelines._START_SECONDS = fast_start._START_SECONDS = 600.0  # a busy machine is no fault
url, place = sys.argv[1], Path(sys.argv[2])
executors = {"spark.executor.memory": "512m", "spark.executor.extraJavaOptions": executor_options()}
pipeline = SparkPipeline(Settings(url, conf=executors), place, "test")
pipeline.start()
facts = {"parallelism": pipeline.parallelism}
places = [place for _ in "12" for place in pipeline.run("functions:place", b"", [b""] * 2, "x")]
facts["places"] = [answer.decode().split("\\n") for answer in places]
facts["probe"] = [list(map(str, answer)) for answer in pipeline.probe("functions:upper", b"ok")]
facts["partly"] = [[one.executor, one.answer.decode(), one.error] for one in
                   pipeline.probe("functions:fail_on_first_executor", b"")]
facts["lacks"] = module_versions.differences(pipeline.probe("functions:installed", b""))
try:
    pipeline.run("functions:die", b"", [b"die", b"live"], "poll 1")
except PipelineError as error:
    facts["death"] = str(error)
facts["after"] = pipeline.run("functions:upper", b"", [b"a", b"b", b"c"], "x") == [b"A", b"B", b"C"]
pipeline.stop()
dynamic = {
    **executors,
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "1s",
}
pipeline = SparkPipeline(Settings(url, conf=dynamic), place, "test")
pipeline.start()
facts["dynamic"] = [list(map(str, answer)) for answer in pipeline.probe("functions:upper", b"ok")]
status = pipeline._context._jsc.sc().getExecutorMemoryStatus
wait_for(lambda: status().size() == 1, what="no executor is left")
facts["left"] = status().size() - 1
facts["again"] = [answer.decode() for answer in pipeline.run("functions:upper", b"", [b"a", b"b", b"c"], "x")]
pipeline.stop()
print(json.dumps(facts))
"""


def test_executors_run_what_was_shipped_and_say_what_is_wrong(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, cluster.url, str(deployment(tmp_path))],
        capture_output=True,
        text=True,
        timeout=1700,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    facts, work = json.loads(done.stdout), str(cluster.directory)
    with Table() as table:
        with table.row("every worker gives an executor"):
            assert facts["parallelism"] == 2
            places = [Path(executor.partition("(")[2].rstrip(")")) for executor, _, _ in facts["probe"]]
            assert {place.name for place in places} == {"0", "1"}, "the directories of the executors"
            assert [answer for _, answer, _ in facts["probe"]] == ["b'ok'", "b'ok'"]
        with table.row("code and deployment are shipped and unpacked in the work directory"):
            for directory, working, module, code in facts["places"]:
                assert directory == working == str(Path(module).parent)
                assert directory.startswith(work)
                assert code.startswith(work)
        with table.row("an executor that fails the probe does not hide the others"):
            answers = {executor[-3:]: (answer, error) for executor, answer, error in facts["partly"]}
            assert answers == {"/0)": ("", "ValueError: disk is missing"), "/1)": ("fine", "")}
        with table.row("a package that workers lack is named with the version to install"):
            assert len(facts["lacks"]) == 2
            for sentence in facts["lacks"]:
                assert "/opt/python has no lxml: install lxml==" in sentence
                assert work in sentence
        with table.row("a task that ends its worker is not run again and names the executor"):
            assert "Python worker exited unexpectedly" in facts["death"]
            assert "on executor" in facts["death"]
            assert facts["after"]
        with table.row("executors that Spark gives back when idle come again"):
            assert [answer for _, answer, _ in facts["dynamic"]] != []
            assert facts["left"] == 0
            assert facts["again"] == ["A", "B", "C"]


PROCESS = """
def store_or_fail_elsewhere(customer, event):
    if customer["Name"] == "elsewhere":
        from lib.deep import fail
        fail()
    store(customer, event)
"""


def test_a_driver_killed_on_a_cluster_loses_nothing_and_the_place_of_a_failure_is_relative_there_too(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    """The driver is killed while an executor is at work."""
    with deployments(tmp_path) as deploy:
        deployment = deploy(inputs=("a", "b"), spark=on(cluster))
        deployment.write("lib/deep.py", "def fail():\n    raise KeyError('gone')\n")
        with (deployment.directory / "processes.py").open("a") as file:
            file.write(PROCESS)
        deployment.spark = {**deployment.spark, "ship": ["processes.py", "lib"]}
        deployment.store = {"process": "processes:store_or_fail_elsewhere"}
        deployment.configure()
        ids = [i for queue in ("a", "b") for i in deployment.fill(queue, ["", "sleep:0.01"] * 40)]
        deployment.kill_while_paused_at("begin:5", whole_group=False)
        ids += deployment.fill("a", ["sleep:0.01"] * 20)
        (failed,) = deployment.fill("b", ["elsewhere"])
        deployment.spark["conf"]["spark.cores.max"] = "1"  # one executor is enough for what is left
        last = deployment.drain(timeout=180)
        assert_settled_once(deployment, ids, kills=1)
        assert deployment.ids("error") == {failed: 1}
    (event,) = [event for event in last.summary["events"] if event["id"] == failed]
    assert (event["outcome"], event["reason"]) == ("failed", "store: KeyError: 'gone' (lib/deep.py:2)")


def test_executors_and_whole_trees_that_are_killed_lose_and_double_nothing(
    tmp_path: Path, cluster: StandaloneCluster
) -> None:
    lake = tmp_path / "lake"
    table = {"format": "parquet", "path": str(lake), "partition_by": ["Name"]}
    load = {"object": "Customer", "name": "lake", "dataframe": table}
    with deployments(tmp_path) as deploy:
        killed = deploy(only=[load], spark=on(cluster))
        killed.fill("in", [f"n{number}" for number in range(80)])
        run = killed.start("--drain")
        await_parts(run, lake)
        executors = cluster.executors()
        for pid in executors:
            os.kill(pid, signal.SIGKILL)
        assert (len(executors), run.wait(600)) == (2, 0), run.errors
        assert Counter(parquet_ids(lake)) == sent(killed)
        killed.fill("in", ["n"] * 20)
        killed.spark["conf"]["spark.cores.max"] = "1"  # one executor is enough for what is left
        run = killed.start("--drain", fault="load.saved=pause")
        run.await_pause("load.saved")
        run.kill_everything()
        killed.drain(timeout=600)
        assert Counter(parquet_ids(lake)) == sent(killed)


def test_tasks_of_two_workers_read_a_lot_and_one_that_dies_loses_nothing(
    place: Path, cluster: StandaloneCluster
) -> None:
    """Each Python of the first query dies at its 25th message, so its last try fails, too."""
    session = {
        "spark.master": cluster.url,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": executor_options(),
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.cores.max": "2",
    }
    fill(place, 0, 400)
    dies = {**session, "spark.executorEnv.CONNECTOR_FAULT": "lot.row:25=kill"}
    status, _, _ = run_alone(place, {**task(place, ("query", {})), "session": dies})
    assert status != 0
    reads = task(place, ("query", {}), ("rows", {}), ("partitions", {}))
    status, said, errors = run_alone(place, {**reads, "session": session})
    assert status == 0, errors
    assert said["1 rows"] == names(0, 400)
    assert said["2 partitions"] == 4, "each slice of 100 is a partition"
    assert [count(place, one) for one in ("in", "archive")] == [0, 400]


def test_what_a_process_logs_is_in_the_log_of_its_executor_with_the_fields_of_its_event(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    with deployments(tmp_path) as deploy:
        deployment = deploy(spark=on(cluster))
        with (deployment.directory / "processes.py").open("a") as file:
            file.write("import logging\nlogging.getLogger('shop').setLevel('DEBUG')\n")
            file.write("def tell(customer, event):\n    logging.getLogger('shop').debug('told')\n")
            file.write("    print('printed')\n")
        deployment.store = {"process": "processes:tell"}
        deployment.configure()
        (sent_id,) = deployment.fill("in", [""])
        deployment.drain(timeout=180)
    logs = "".join(path.read_text() for path in cluster.directory.glob("work*/*/*/stderr"))
    where = f"message_id={sent_id} destination=queue://in object=Customer verb=Create subscription=store\n"
    assert f" [debug] told [shop] {where}" in logs
    assert f" text=printed stream=stdout {where}" in logs
