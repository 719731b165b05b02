"""From the command to the first event published; beside PySpark alone: a SparkContext and a job of two tasks.

``python -m benchmarks.start [--runs N]``
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import deployment, fill, json_body, machine, scratch, spread
from connector.java import find_java

PUBLISHED = """
import time


def take(customer, event):
    with open("published", "a") as file:
        file.write(f"{time.time()}\\n")
"""

PYSPARK = """
from pyspark import SparkContext

print(SparkContext("local[2]").parallelize([1, 2], 2).map(str).collect())
"""


def first_event(directory: Path) -> float:
    """Seconds."""
    file = deployment(directory, ["in"])
    (directory / "processes.py").write_text(PUBLISHED)
    fill(directory / "data", "in", 1, json_body)
    started = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "connector.cli", "run", "-c", str(file)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])},
    )
    try:
        published = directory / "published"
        while not (published.exists() and published.read_text().strip()):
            if process.poll() is not None or time.time() - started > 120:
                raise RuntimeError("the adapter published nothing")
            time.sleep(0.01)
        return float(published.read_text().split()[0]) - started
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def seconds(*command: str) -> float:
    started = time.time()
    environ = {**os.environ, "JAVA_HOME": str(find_java().home)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
    return time.time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print(machine())
    events, references = [], []
    for _ in range(arguments.runs):
        with scratch() as directory:
            events.append(first_event(directory))
        references.append(seconds(sys.executable, "-c", PYSPARK))
    ratio = statistics.median(a / b for a, b in zip(events, references, strict=True))
    print(
        f"first event published after {spread(events, 2)} s; "
        f"PySpark alone {spread(references, 2)} s; ratio {ratio:.2f}"
    )


if __name__ == "__main__":
    main()
