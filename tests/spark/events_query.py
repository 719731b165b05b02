"""A program with a query of the source ``events``, as a user would write it. Run as a process of its own.

Its only argument is JSON: ``session`` (settings of Spark), ``options`` of the source, ``table`` (a path of
Parquet), ``checkpoint``, ``steps``. It prints one line of JSON.
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
        [sys.executable, "-m", "tests.spark.events_query", json.dumps(task)],
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
    output, errors = process.communicate(timeout=280)
    lines = output.strip().splitlines()
    return process.returncode, json.loads(lines[-1]) if lines else {}, errors


class Program:
    """The steps of a program. Each returns something for JSON."""

    def __init__(self, task: Mapping[str, Any]) -> None:
        self.task = task
        builder = SparkSession.builder.appName("events")
        settings = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
        }
        for name, value in {**settings, **task.get("session", {})}.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.spark.dataSource.register(EventsDataSource)

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
    program = Program(task)
    answers: dict[str, Any] = {}
    for number, (step, arguments) in enumerate(task["steps"]):
        answers[f"{number} {step}"] = getattr(program, step)(**arguments)
    print(json.dumps(answers, default=str), flush=True)
    program.spark.stop()


if __name__ == "__main__":
    main()
