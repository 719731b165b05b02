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

pytestmark = pytest.mark.cluster

DRIVER = """
import json, sys
from pathlib import Path
from connector.errors import PipelineError
from connector.spark import probe
from connector.spark.pipeline import SparkPipeline
from tests.spark.conftest import Settings

url, place, token = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
pipeline = SparkPipeline(Settings(url, conf={"spark.executor.memory": "512m"}), place, "test")
pipeline.start()
facts = {"parallelism": pipeline.parallelism}
places = [place for _ in "12" for place in pipeline.run("functions:place", b"", [b""] * 2, "x")]
facts["places"] = [answer.decode().split("\\n") for answer in places]
facts["probe"] = [list(map(str, answer)) for answer in pipeline.probe("functions:upper", b"ok")]
facts["partly"] = [[one.executor, one.answer.decode(), one.error] for one in
                   pipeline.probe("functions:fail_on_first_executor", b"")]
for name, text in (("right", "token"), ("wrong", "of another directory")):
    plan = probe.probe_plan(token=token, token_text=text, modules=["functions", "no_such_module"])
    facts[name] = probe.lacks(pipeline.probe(probe.REPORT, plan), plan)
try:
    pipeline.run("functions:die", b"", [b"die", b"live"], "poll 1")
except PipelineError as error:
    facts["death"] = str(error)
facts["after"] = pipeline.run("functions:upper", b"", [b"a", b"b", b"c"], "x") == [b"A", b"B", b"C"]
pipeline.stop()
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("cluster")
    place = directory / "deployment"
    place.mkdir()
    deployment(place)
    token = directory / "token"
    token.write_text("token")
    root = Path(__file__).parents[2]
    cluster = StandaloneCluster(directory / "cluster")
    try:
        cluster.start()
        process = subprocess.run(
            [sys.executable, "-c", DRIVER, cluster.url, str(place), str(token)],
            capture_output=True,
            text=True,
            timeout=200,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            check=False,
        )
    finally:
        cluster.stop()
    assert process.returncode == 0, process.stderr
    assert process.stderr == ""
    return json.loads(process.stdout) | {
        "deployment": str(place),
        "work": str(directory / "cluster"),
        "token": str(token),
    }


def test_every_worker_gives_an_executor(facts: dict[str, Any]) -> None:
    assert facts["parallelism"] == 2
    assert [executor for executor, _, _ in facts["probe"]] == [
        "executor 0 on 127.0.0.1",
        "executor 1 on 127.0.0.1",
    ]
    assert [answer for _, answer, _ in facts["probe"]] == ["b'ok'", "b'ok'"]


def test_code_and_deployment_are_shipped_and_unpacked_in_the_work_directory(facts: dict[str, Any]) -> None:
    for place, directory, module, code in facts["places"]:
        assert place == directory == str(Path(module).parent)
        assert place.startswith(facts["work"])
        assert code.startswith(facts["work"])


def test_an_executor_that_fails_the_probe_does_not_hide_the_others(facts: dict[str, Any]) -> None:
    assert facts["partly"] == [
        ["executor 0 on 127.0.0.1", "", "a task failed: ValueError: disk is missing"],
        ["executor 1 on 127.0.0.1", "fine", ""],
    ]


def test_a_worker_that_sees_another_root_is_named(facts: dict[str, Any]) -> None:
    roots = [sentence for sentence in facts["wrong"] if "does not see" in sentence]
    assert len(roots) == 2
    assert roots[1].startswith("executor 1 on 127.0.0.1")
    assert str(Path(facts["token"]).parent) in roots[1]
    assert not [sentence for sentence in facts["right"] if "does not see" in sentence]


def test_a_module_that_workers_lack_is_named_and_one_that_was_shipped_is_not(facts: dict[str, Any]) -> None:
    assert len(facts["right"]) == 2
    assert all("has no module no_such_module" in sentence for sentence in facts["right"])


def test_a_task_that_ends_its_worker_is_not_run_again_and_names_the_executor(facts: dict[str, Any]) -> None:
    assert "Python worker exited unexpectedly" in facts["death"]
    assert "on executor" in facts["death"]
    assert facts["after"]
