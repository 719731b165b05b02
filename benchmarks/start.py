"""From the command to the first event published; beside the start of Python and of Java alone.

``python -m benchmarks.start [--runs N]``
"""

from __future__ import annotations

import argparse
import os
import signal
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


def first_event(directory: Path) -> float:
    """Seconds."""
    file = deployment(directory, ["in"])
    (directory / "processes.py").write_text(PUBLISHED)
    fill(directory / "data", "in", 1, json_body)
    started = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "connector.cli.app", "run", "-c", str(file)],
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
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print(machine())
    events, pythons, javas = [], [], []
    java = str(find_java().executable)
    for _ in range(arguments.runs):
        with scratch() as directory:
            events.append(first_event(directory))
        pythons.append(seconds(sys.executable, "-c", "pass"))
        javas.append(seconds(java, "-version"))
    print(
        f"first event published after {spread(events, 2)} s; "
        f"python alone {spread(pythons, 2)} s, java alone {spread(javas, 2)} s"
    )


if __name__ == "__main__":
    main()
