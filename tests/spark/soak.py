"""Gives very many assignments to tasks that stay, and shows that memory, open files and threads stay flat.

    python -m tests.spark.soak [--assignments 1000000] [--master local[2]]

Prints them for the driver, Java and the workers at every tenth of the way. Status 1 if open files or threads
have grown since the second tenth by more than a few, or if memory has grown by more than 5 %.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from connector.spark.pipeline import SparkPipeline
from tests.spark.conftest import Settings, deployment

_MOST_GROWTH = 1.05
_COMING_AND_GOING = 5
"""Threads of Java that come and go, and their files."""


class Counts(NamedTuple):
    """Sums over the driver, Java and the workers."""

    memory: int
    files: int
    threads: int


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--assignments", type=int, default=1_000_000, help="how many; default 1000000")
    parser.add_argument("--master", default="local[2]", help="default local[2]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="connector-soak-") as directory:
        pipeline = SparkPipeline(Settings(options.master), deployment(Path(directory)), "soak")
        pipeline.start()
        try:
            return _soak(pipeline, options.assignments)
        finally:
            pipeline.stop()


def _soak(pipeline: SparkPipeline, assignments: int) -> int:
    pipeline.probe("functions:upper", b"0")
    pipeline.run("functions:upper", b"0", [b""] * 100, "soak")  # all threads of the driver
    pids = {os.getpid(), int(pipeline._spark.pid)}  # type: ignore[union-attr]
    while len(pids) < 2 + pipeline.parallelism:
        pids |= {int(one) for one in pipeline.run("functions:process_id", b"", [b""] * 9, "soak")}
    found: list[Counts] = []
    began = time.monotonic()
    for _ in range(10):
        with ThreadPoolExecutor(pipeline.parallelism) as threads:
            each = assignments // 10 // pipeline.parallelism
            for done in [threads.submit(_assign, pipeline, each) for _ in range(pipeline.parallelism)]:
                done.result()
        found.append(_counts(pids))
        seconds = time.monotonic() - began
        print(
            f"{len(found) * assignments // 10} assignments, {seconds:.0f} s: "
            f"{found[-1].memory >> 20} MB, {found[-1].files} files, {found[-1].threads} threads",
            flush=True,
        )
    first, last = found[1], found[-1]
    is_flat = last.memory <= first.memory * _MOST_GROWTH
    is_flat = is_flat and last.files <= first.files + _COMING_AND_GOING
    is_flat = is_flat and last.threads <= first.threads + _COMING_AND_GOING
    print("flat" if is_flat else "GROWN")
    return not is_flat


def _assign(pipeline: SparkPipeline, number: int) -> None:
    """Payloads of some bytes and some kB, now and then with other settings."""
    for one in range(number):
        plan, payload = b"%d" % (one // 500 % 4), b"x" * (one % 97 * 50)
        (answer,) = pipeline.run("functions:upper", plan, [payload], "soak")
        assert answer == plan + payload.upper(), threading.current_thread().name


def _counts(pids: set[int]) -> Counts:
    memory = files = threads = 0
    for pid in pids:
        process = Path(f"/proc/{pid}")
        rollup = (process / "smaps_rollup").read_text().splitlines()
        memory += next(int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:"))
        files += len(os.listdir(process / "fd"))
        threads += len(os.listdir(process / "task"))
    return Counts(memory, files, threads)


if __name__ == "__main__":
    sys.exit(main())
