"""CPU time of a worker for an event: read, convert, publish to one process, journal.

Beside the same files read, parsed and given to the same process. In this process, without Spark and without
settling. ``python -m benchmarks.worker_cost [--runs N] [--beside DIR]``
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common import deployment, fill, json_body, machine, scratch
from connector.config.loading import load
from connector.events.run.job import work_items
from connector.events.run.task import Task
from connector.messaging.destination import parse_destination
from connector.service.assembly import make_provider, make_task_settings
from connector.sinks.functions import load_process
from connector.state.journal import JournalFile

EVENTS = 1000


class Unwatched:
    """A progress that nobody reads."""

    stopping = False

    is_full = False

    def limit(self, seconds: float, whole: float) -> None: ...

    def give_up(self) -> None: ...

    def arm(self, seconds: float, what: str) -> None: ...

    def disarm(self) -> None: ...


def plain(paths: list[str], process: Any) -> None:
    """The reference: no headers, no check, no journal."""
    for path in paths:
        with open(path, "rb") as file:
            process(orjson.loads(file.read()), None)


def measure(directory: Path, runs: int) -> tuple[float, float]:
    """Microseconds of CPU an event: the least of all runs, of the task and of the reference."""
    configuration = load(deployment(directory, ["in"]))
    provider = make_provider(configuration)
    connection = provider.connect("benchmark", "benchmark")
    fill(directory / "data", "in", EVENTS, json_body)
    poller = connection.poller(parse_destination("in"))
    claims = poller.claim(1, range(EVENTS))
    assert len(claims) == EVENTS, len(claims)
    items = work_items(claims, {})
    paths = [str(directory / "data" / claim.reference) for claim in claims]
    task = Task(make_task_settings(configuration, provider, connection.access()), str(directory), Unwatched())
    process = load_process("processes:take", str(directory))
    ours, theirs = [], []
    for run in range(runs):
        started = time.process_time()
        outcomes = task.run(JournalFile(str(directory / f"journal-{run}")), [items])
        ours.append(time.process_time() - started)
        assert all(orjson.loads(outcome)[0] == "published" for outcome in outcomes)
        started = time.process_time()
        plain(paths, process)
        theirs.append(time.process_time() - started)
    task.close()
    connection.abandon()
    return min(ours) / EVENTS * 1e6, min(theirs) / EVENTS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--beside", help="another checkout, measured in turn in processes of its own")
    parser.add_argument("--json", action="store_true", help="print the two figures of one process only")
    arguments = parser.parse_args()
    if arguments.json:
        with scratch() as directory:
            print(json.dumps(measure(directory, arguments.runs)))
        return
    print(machine())
    trees = [Path(__file__).resolve().parents[1]]
    if arguments.beside:
        trees.append(Path(arguments.beside).resolve())
    figures: dict[Path, list[list[float]]] = {tree: [] for tree in trees}
    for _ in range(5):
        for tree in trees:
            command = [sys.executable, "-P", __file__, "--json", "--runs", str(arguments.runs)]
            environment = {**os.environ, "PYTHONPATH": str(tree)}
            answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
            figures[tree].append(json.loads(answer))
    for tree, pairs in figures.items():
        task, reference = (min(column) for column in zip(*pairs, strict=True))
        print(f"{tree}: {task:.1f} us an event, plain {reference:.1f} us, ratio {task / reference:.2f}")


if __name__ == "__main__":
    main()
