"""The pipeline on a real standalone master with two workers.

In a process of its own: PySpark has one context a process, and the other tests hold it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import deployment
from tests.spark.standalone import StandaloneCluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.process,
    pytest.mark.timeout(900),
]  # ten starts of Java, on a busy machine

DRIVER = """
import json, sys
from pathlib import Path
from connector.errors import PipelineError
from connector.events import probe
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
facts["lacks"] = probe.differences(pipeline.probe("functions:installed", b""))
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


@pytest.fixture(scope="module")
def facts(cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = deployment(tmp_path_factory.mktemp("deployment"))
    root = Path(__file__).parents[2]
    process = subprocess.run(
        [sys.executable, "-c", DRIVER, cluster.url, str(place)],
        capture_output=True,
        text=True,
        timeout=850,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    found: dict[str, Any] = json.loads(process.stdout)
    return {**found, "work": str(cluster.directory)}


def test_executors_that_spark_gives_back_when_idle_come_again(facts: dict[str, Any]) -> None:
    """Dynamic allocation: none is left after a while, and a job gets new ones."""
    assert [answer for _, answer, _ in facts["dynamic"]] != []
    assert facts["left"] == 0
    assert facts["again"] == ["A", "B", "C"]


def test_every_worker_gives_an_executor(facts: dict[str, Any]) -> None:
    assert facts["parallelism"] == 2
    places = [Path(executor.partition("(")[2].rstrip(")")) for executor, _, _ in facts["probe"]]
    assert {place.name for place in places} == {"0", "1"}, "the directories of the executors"
    assert [answer for _, answer, _ in facts["probe"]] == ["b'ok'", "b'ok'"]


def test_code_and_deployment_are_shipped_and_unpacked_in_the_work_directory(facts: dict[str, Any]) -> None:
    for place, directory, module, code in facts["places"]:
        assert place == directory == str(Path(module).parent)
        assert place.startswith(facts["work"])
        assert code.startswith(facts["work"])


def test_an_executor_that_fails_the_probe_does_not_hide_the_others(facts: dict[str, Any]) -> None:
    answers = {executor[-3:]: (answer, error) for executor, answer, error in facts["partly"]}
    assert answers == {"/0)": ("", "ValueError: disk is missing"), "/1)": ("fine", "")}


def test_a_package_that_workers_lack_is_named_with_the_version_to_install(facts: dict[str, Any]) -> None:
    assert len(facts["lacks"]) == 2
    for sentence in facts["lacks"]:
        assert "/opt/python has no lxml: install lxml==" in sentence
        assert facts["work"] in sentence


def test_a_task_that_ends_its_worker_is_not_run_again_and_names_the_executor(facts: dict[str, Any]) -> None:
    assert "Python worker exited unexpectedly" in facts["death"]
    assert "on executor" in facts["death"]
    assert facts["after"]
