"""A queue of small messages into Parquet, beside Spark alone with the same files.

``python -m benchmarks.spark_tables [--messages N] [--batch N]``. Each way is a process of its own. The
seconds are those from the first call to the end of the table, without the start of Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import deployment, fill, json_body, machine, scratch

WAYS = ("read.json", "stream of files", "stream of events")


def work(way: str, directory: Path, batch: int) -> tuple[float, int]:
    """Writes the table. Returns seconds and rows."""
    from pyspark.sql import SparkSession

    from connector import EventsDataSource
    from connector.config.loading import load
    from connector.spark.tables import Table

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(EventsDataSource)
    file, table = directory / "adapter.yaml", str(directory / "table")
    schema = Table(load(file).metaobjects.definitions, "Customer").schema
    spark.range(10).count()
    began = time.perf_counter()
    files = str(directory / "files")
    if way == "read.json":
        spark.read.schema(schema).json(files).write.parquet(table)
    else:
        reading = spark.readStream
        if way == "stream of files":
            frame = reading.schema(schema).option("maxFilesPerTrigger", batch).json(files)
        else:
            options = {
                "config": str(file),
                "destination": "queue://in",
                "name": "lake",
                "object": "Customer",
                "maxMessagesPerTrigger": str(batch),
            }
            frame = reading.format("events").options(**options).load()
        writing = frame.writeStream.format("parquet").option("path", table)
        writing = writing.option("checkpointLocation", str(directory / "checkpoint"))
        writing.trigger(availableNow=True).start().awaitTermination()
    took = time.perf_counter() - began
    rows = spark.read.parquet(table).count()
    spark.stop()
    return took, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=20_000, help="messages or files of a micro-batch")
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(work(options.way, options.directory, options.batch)))
        return
    print(machine())
    first = 0.0
    for way in WAYS:
        with scratch() as directory:
            deployment(directory, ["in"])
            fill(directory / "data", "in", options.messages, json_body)
            waiting = directory / "data/in/incoming/target"
            if way != WAYS[-1]:
                (directory / "files").mkdir()
                for name in os.listdir(waiting):
                    os.rename(waiting / name, directory / "files" / name)
            command = [
                sys.executable,
                "-m",
                "benchmarks.spark_tables",
                "--way",
                way,
                "--directory",
                str(directory),
            ]
            done = subprocess.run(
                [*command, "--batch", str(options.batch)],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            took, rows = json.loads(done.stdout.splitlines()[-1])
            first = first or took
            print(
                f"{way:<18} {took:7.1f} s  {rows:,} rows  {rows / took:8,.0f} a second  {took / first:5.2f}"
            )
            shutil.rmtree(directory / "data", ignore_errors=True)


if __name__ == "__main__":
    main()
