"""Events of a quick queue while those of a slow queue are at work, beside the same without the slow queue.

From the ``mv`` of the first message to the end of the call for the last one, in a service that knows neither
queue yet, and then some times more, when it knows the quick one.
``python -m benchmarks.side_by_side [--runs N]``
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import deployment, fill, json_body, machine, scratch, spread

QUICK = 200
SLOW = 12
PROCESSES = """
import time


def take(customer, event):
    if event.input_destination == "queue://slow":
        time.sleep(1)
    else:
        with open("called", "a") as file:
            file.write(f"{time.time()}\\n")
"""
TURNS = 7
PATIENCE = 60.0


def measure(*, beside: bool) -> list[float]:
    """Seconds for the quick events of each turn."""
    with scratch() as directory:
        file = deployment(directory, ["slow", "quick"])
        (directory / "processes.py").write_text(PROCESSES)
        file.write_text(file.read_text().replace("  PollQuantity:", "  PollFrequency: 1000\n  PollQuantity:"))
        root, called = directory / "data", directory / "called"
        fill(root, "slow", 0, json_body)
        fill(root, "quick", 0, json_body)
        run = subprocess.Popen([sys.executable, "-m", "connector.cli", "run", "-c", str(file)])
        try:
            while not list(root.glob("dropboxmq/clients/*")):
                time.sleep(0.05)
            time.sleep(5)
            if beside:
                fill(root, "slow", SLOW, json_body)
                time.sleep(0.2)
            seconds = []
            for turn in range(TURNS):
                began = time.time()
                fill(root, "quick", QUICK, json_body, start=turn * 1000)
                seconds.append(_last(called, QUICK * (turn + 1)) - began)
            return seconds
        finally:
            run.kill()
            run.wait()


def _last(called: Path, count: int) -> float:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        lines = called.read_text().split() if called.exists() else []
        if len(lines) >= count:
            return float(lines[count - 1])
        time.sleep(0.005)
    raise TimeoutError(f"{count} events within {PATIENCE:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(machine())
    alone = [measure(beside=False) for _ in range(arguments.runs)]
    beside = [measure(beside=True) for _ in range(arguments.runs)]
    for name, turns in (("at first", slice(0, 1)), ("then", slice(1, None))):
        a, b = [s for one in alone for s in one[turns]], [s for one in beside for s in one[turns]]
        ratio = statistics.median(b) / statistics.median(a)
        print(
            f"{name}: alone {spread(a, 2)} s, beside {SLOW} slow events {spread(b, 2)} s, ratio {ratio:.2f}"
        )


if __name__ == "__main__":
    main()
