"""A program with a query of the source ``events``, as a user would write it.

It runs in a Spark of the test, or as a process of its own. There, its only argument is JSON: ``session``
(settings of Spark), ``options`` of the source, ``table`` (a path of Parquet), ``checkpoint``, ``steps``. It
prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from connector import EventsDataSource
from connector.java import find_java
from tests.spark.standalone import executor_options, java_home_for_executors

ROOT = Path(__file__).parents[2]


def start(
    directory: Path, task: Mapping[str, Any], *, fault: str = "", **variables: str
) -> subprocess.Popen[str]:
    """Starts the program in a process group of its own.

    Args:
        directory: for the Java of Spark.
        task: the argument.
        fault: as in CONNECTOR_FAULT.
        variables: further variables of the environment.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(java_home_for_executors(find_java(), directory / "java")),
        "JAVA_TOOL_OPTIONS": executor_options(),
        **variables,
    }
    if fault:
        environment["CONNECTOR_FAULT"] = fault
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lake.events_query", json.dumps(task)],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(directory: Path, task: Mapping[str, Any], *, fault: str = "") -> tuple[int, dict[str, Any], str]:
    """Runs the program to its end. Returns its status, what it has printed, and its errors."""
    process = start(directory, task, fault=fault)
    output, errors = process.communicate(timeout=600)
    lines = output.strip().splitlines()
    return process.returncode, json.loads(lines[-1]) if lines else {}, errors


def run_here(session: SparkSession, task: Mapping[str, Any], *, fault: str = "") -> dict[str, Any]:
    """Runs the steps of a program in a Spark of this process. Returns what each has returned.

    Args:
        session: of Spark.
        task: the argument.
        fault: as in CONNECTOR_FAULT, for the processes that Spark starts for the source.
    """
    environment: dict[str, str] = session.sparkContext.environment
    if fault:
        environment["CONNECTOR_FAULT"] = fault
    try:
        return Program(task, session).answers()
    finally:
        environment.pop("CONNECTOR_FAULT", None)


def new_session(settings: Mapping[str, str]) -> SparkSession:
    """Starts Spark with further settings."""
    builder = SparkSession.builder.appName("events")
    own = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    for name, value in {**own, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class Program:
    """The steps of a program. Each returns something for JSON.

    Args:
        task: the argument.
        session: of Spark.
    """

    def __init__(self, task: Mapping[str, Any], session: SparkSession) -> None:
        self.task = task
        self.spark = session
        self.spark.dataSource.register(EventsDataSource)

    def answers(self) -> dict[str, Any]:
        """Does all steps. Returns what each has returned, as JSON shows it."""
        found = {
            f"{number} {step}": getattr(self, step)(**arguments)
            for number, (step, arguments) in enumerate(self.task["steps"])
        }
        shown: dict[str, Any] = json.loads(json.dumps(found, default=str))
        return shown

    def query(self, **changed: Any) -> Any:
        """Reads all that waits into the table. Returns the offsets and numbers of rows of the batches."""
        task = {**self.task, **changed}
        frame = self.spark.readStream.format("events").options(**task["options"]).load()
        writing = frame.writeStream.format("parquet").option("path", task["table"])
        writing = writing.option("checkpointLocation", task["checkpoint"])
        writing = writing.options(**task.get("writing", {}))
        query = writing.trigger(availableNow=True).start()
        query.awaitTermination()
        return [
            [one["sources"][0]["endOffset"]["number"], one["numInputRows"]]
            for one in (json.loads(progress.json) for progress in query.recentProgress)
        ]

    def fails(self, **changed: Any) -> str:
        """Returns the error of a query."""
        try:
            self.query(**changed)
        except Exception as error:
            return str(error)
        return ""

    def look(self, **changed: Any) -> Any:
        """Returns the columns and the rows of what waits."""
        options = {**self.task["options"], **changed}
        frame = self.spark.read.format("events").options(**options).load()
        return [frame.schema.simpleString(), [row.asDict(recursive=True) for row in frame.collect()]]

    def rows(self, column: str = "CustomerId") -> Any:
        """Returns the values of a column of the table."""
        frame = self.spark.read.parquet(self.task["table"])
        return sorted(str(row[0]) for row in frame.select(column).collect())

    def partitions(self) -> int:
        """Returns the number of files that the table has."""
        return len(self.spark.read.parquet(self.task["table"]).inputFiles())


def main() -> None:
    task = json.loads(sys.argv[1])
    session = new_session(task.get("session", {}))
    print(json.dumps(Program(task, session).answers()), flush=True)
    session.stop()


if __name__ == "__main__":
    main()
