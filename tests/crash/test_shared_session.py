"""An adapter in a session of the program: jobs cancelled from outside, and jobs of the program's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from connector.java import find_java
from tests.crash.conftest import Deploy
from tests.crash.harness import CrashDeployment, assert_settled_once
from tests.runs import REPOSITORY
from tests.spark.standalone import executor_options, java_home_for_executors
from tests.waiting import wait_for

PROGRAM = """
import json, pathlib, sys, threading, time
from pyspark.sql import SparkSession
from connector import Adapter
from tests.waiting import wait_for

session = SparkSession.builder.master("local[3]").config("spark.ui.enabled", "false").getOrCreate()
context = session.sparkContext
here = pathlib.Path.cwd()
said = {}

def slow(number):
    time.sleep(0.2)  # the job goes on beside the jobs of the adapter
    return number

def own_job():
    said["own"] = context.parallelize(range(20), 1).map(slow).sum()

def cancel():
    wait_for(lambda: list(here.glob("reached.1.*")))
    context.cancelAllJobs()
    said["cancelled"] = True

with Adapter.from_file("adapter.yaml", spark=session) as adapter:
    cancelling = threading.Thread(target=cancel, daemon=True)
    cancelling.start()
    said["code"] = adapter.drain().code.name
    cancelling.join()
    own = threading.Thread(target=own_job)
    own.start()
    pathlib.Path("half").touch()
    wait_for((here / "more").exists)
    said["beside"] = adapter.drain().code.name
own.join()
said["alive"] = context.parallelize([1, 2, 3]).sum()
session.stop()
print(json.dumps(said))
"""


def start(deployment: CrashDeployment) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=deployment.directory,
        env={
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "PYSPARK_PYTHON": sys.executable,
            "JAVA_HOME": str(java_home_for_executors(find_java(), deployment.directory / "java")),
            "JAVA_TOOL_OPTIONS": executor_options(),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_job_cancelled_from_outside_and_the_jobs_of_the_program_lose_nothing(deploy: Deploy) -> None:
    deployment = deploy(inputs=("a", "b"), connector={"stop_timeout": "2s"})
    ids = deployment.fill("a", ["", "gate:1", "", ""]) + deployment.fill("b", ["sleep:0.05"] * 10)
    process = start(deployment)
    try:
        wait_for(lambda: deployment.reached("1") or process.poll() is not None, 120, "at work")
        wait_for(lambda: len(deployment.reached("1")) > 1 or process.poll() is not None, 120, "run again")
        deployment.open("1")
        wait_for(lambda: (deployment.directory / "half").exists() or process.poll() is not None, 120)
        ids += deployment.fill("a", [""] * 10)
        (deployment.directory / "more").touch()
        out, errors = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    said: dict[str, Any] = json.loads(out)
    assert said == {"cancelled": True, "code": "SUCCEED", "own": 190, "beside": "SUCCEED", "alive": 6}
    assert_settled_once(deployment, ids, kills=1)
