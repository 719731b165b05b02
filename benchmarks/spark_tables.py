"""A queue of small messages into Parquet, beside Spark alone with the same files.

``python -m benchmarks.spark_tables [--messages N] [--batch N]``. Each way is a process of its own. The
seconds are those from the first call to the end of the table, without the start of Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import deployment, fill, json_body, machine, scratch

WAYS = ("read.json", "stream of files", "stream of events", "load of an adapter")


def work(way: str, directory: Path, batch: int) -> tuple[float, int]:
    """Writes the table. Returns seconds and rows."""
    from pyspark.sql import SparkSession

    from connector import EventsDataSource
    from connector.config.loading import load
    from connector.lake.tables import SparkTable

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(EventsDataSource)
    file, table = directory / "adapter.yaml", str(directory / "table")
    schema = SparkTable(load(file).metaobjects.definitions, "Customer").schema
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


def load_by_adapter(directory: Path, batch: int) -> tuple[float, int]:
    """Loads the queue by an adapter. Returns the seconds of the whole command, and rows."""
    import pyarrow.dataset

    file = directory / "adapter.yaml"
    table = f"dataframe: {{format: parquet, path: ./table}}\n    size: {batch}"
    file.write_text(file.read_text().replace("process: processes:take", table))
    command = [sys.executable, "-m", "connector.cli", "run", "--drain", "-c", str(file)]
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    took = time.perf_counter() - began
    return took, pyarrow.dataset.dataset(directory / "table", partitioning="hive").count_rows()


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
            if way in WAYS[:2]:
                (directory / "files").mkdir()
                for name in os.listdir(waiting):
                    os.rename(waiting / name, directory / "files" / name)
            if way == WAYS[-1]:
                show(way, *load_by_adapter(directory, options.batch), first)
                continue
            module = [sys.executable, "-m", "benchmarks.spark_tables", "--directory", str(directory)]
            done = subprocess.run(
                [*module, "--way", way, "--batch", str(options.batch)],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=True,
            )
            took, rows = json.loads(done.stdout.splitlines()[-1])
            first = first or took
            show(way, took, rows, first)


def show(way: str, took: float, rows: int, first: float) -> None:
    print(f"{way:<18} {took:7.1f} s  {rows:,} rows  {rows / took:8,.0f} a second  {took / first:5.2f}")


if __name__ == "__main__":
    main()
