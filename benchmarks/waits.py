"""Events whose process waits 0.1 s: one after the other, side by side in threads, and as coroutines.

Beside a route of Apache Camel that takes the same files with ``threads(32)``. Also the memory of all its
processes. Needs a JDK (``javac``) and Maven Central. ``python -m benchmarks.waits [--runs N]``
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.broker import JavaProgram
from benchmarks.common import deployment, fill, json_body, machine, scratch, spread
from benchmarks.memory import await_archived, megabytes

_CAMEL = "4.18.2"
_ROUTE = [f"org.apache.camel:camel-{name}:{_CAMEL}" for name in ("core", "file", "jackson")]
_PROCESSES = """
import asyncio
import time


def take(customer, event):
    time.sleep(0.1)


async def take_async(customer, event):
    await asyncio.sleep(0.1)
"""


def measure(parallel: int, process: str, events: int, runs: int) -> tuple[list[float], float]:
    """Returns the seconds of each run in a service that knows the queue, and its memory in MB."""
    with scratch() as directory:
        file = deployment(directory, ["in"])
        (directory / "processes.py").write_text(_PROCESSES)
        text = file.read_text().replace("processes:take", f"processes:{process}")
        file.write_text(
            text.replace("  PollQuantity:", f"  order: none\n  parallel: {parallel}\n  PollQuantity:")
        )
        root, done, seconds = directory / "data", 40, []
        fill(root, "in", done, json_body)
        run = subprocess.Popen([sys.executable, "-m", "connector.cli", "run", "-c", str(file)])
        try:
            await_archived(root, done)
            for number in range(runs):
                began = time.monotonic()
                fill(root, "in", events, json_body, start=(number + 1) * 1_000_000)
                done += events
                await_archived(root, done)
                seconds.append(time.monotonic() - began)
            return seconds, sum(megabytes(run.pid).values())
        finally:
            run.terminate()
            run.wait()


def measure_camel(events: int, runs: int, threads: int) -> list[float]:
    """Returns the seconds of each run of the route."""
    with scratch() as directory:
        java = JavaProgram("CamelWaits", _ROUTE, str(directory))
        try:
            seconds = []
            for number in range(runs):
                _write(directory / "in", number, events)
                seconds.append(java.run(f"take {events} {threads} 100"))
            return seconds
        finally:
            java.stop()


def _write(queue: Path, run: int, events: int) -> None:
    os.makedirs(queue, exist_ok=True)
    for number in range(events):
        (queue / f"{run}-{number:06d}.json").write_bytes(json_body(number))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    if shutil.which("javac") is None:
        sys.exit("benchmarks.waits needs a JDK: there is no javac")
    print(machine())
    camel = measure_camel(400, arguments.runs, 32)
    print(f"400 events, Camel with threads(32): {spread(camel, 2)} s", flush=True)
    memory = 0.0
    for parallel, process, events in ((1, "take", 400), (32, "take", 400), (200, "take_async", 4000)):
        seconds, found = measure(parallel, process, events, 1 if parallel == 1 else arguments.runs)
        more = f", {found - memory:.0f} more" if memory else ""
        memory = memory or found
        beside = statistics.median(seconds) / statistics.median(camel)
        ratio = f", {beside:.2f} of Camel's time" if events == 400 else ""
        print(
            f"{events:,} events, {process}, parallel {parallel}: {spread(seconds, 2)} s{ratio}, "
            f"{found:.0f} MB{more}",
            flush=True,
        )


if __name__ == "__main__":
    main()
