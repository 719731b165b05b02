"""What Spark adds to a cycle: a job over plain calls of the same function on the same messages.

``python -m benchmarks.spark_share [--runs N]``
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
from pathlib import Path

from benchmarks.common import deployment, fill, json_body, machine, scratch, spread
from connector.events.run.job import work_items
from connector.events.run.pipeline import FUNCTION
from connector.events.run.task_settings import Assignment
from connector.events.run.worker import run_assignment, stop_runners
from connector.messaging.destination import parse_destination
from connector.service.adapter import Adapter


def measure(adapter: Adapter, root: Path, size: int, runs: int) -> tuple[list[float], list[float]]:
    """Milliseconds of the plain call and of the Spark job, in turn, over the same claimed messages."""
    inbound, state = adapter._connection.inbound, adapter._connection.state
    assert inbound is not None
    assert state is not None
    pipeline = adapter._connection.pipeline
    task_settings = inbound.jobs.plan_bytes
    journals = state.journals(inbound.connection.client_id, "benchmark")
    journals.make()
    deployment_directory = str(adapter.configuration.directory)
    poller = inbound.connection.poller(parse_destination("in"))
    fill(root, "in", size, json_body)
    claims = poller.claim(1, range(size))
    order_groups = [work_items(claims, {})]
    plain: list[float] = []
    spark: list[float] = []
    for number in range(runs + 5):
        for what in ("plain", "spark"):
            batch = 2 * number + (what == "spark")
            payload = pickle.dumps(Assignment(journals.file(batch, 0, size), order_groups))
            started = time.perf_counter()
            if what == "plain":
                run_assignment(task_settings, deployment_directory, payload)
            else:
                pipeline.run(FUNCTION, task_settings, [payload], "benchmark")
            milliseconds = (time.perf_counter() - started) * 1000
            journals.forget(batch)
            if number >= 5:  # the first ones warm up
                (plain if what == "plain" else spark).append(milliseconds)
    for claim in claims:
        os.unlink(root / claim.reference)
    return plain, spark


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=31)
    arguments = parser.parse_args()
    print(machine())
    with scratch() as directory:
        file = deployment(directory, ["in"])
        with Adapter.from_file(file) as adapter:
            adapter.start()
            for size in (1, 100, 1000):
                plain, spark = measure(adapter, directory / "data", size, arguments.runs)
                share = [s - p for s, p in zip(spark, plain, strict=True)]
                print(
                    f"{size} messages: Spark {spread(spark, 1)} ms, plain {spread(plain, 1)} ms, "
                    f"Spark's share {spread(share, 1)} ms"
                )
        stop_runners()


if __name__ == "__main__":
    main()
