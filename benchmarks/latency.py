"""From ``mv`` into ``target/`` to the call of the business process, one message at a time to an idle adapter.

PollFrequency is 1000. Beside it the same with ``wake: false``, where a message waits for the next poll. The
share up to the claim is what waking and claiming take. The rest is the Spark task. Also a request from
another process to an adapter like that, until its reply is there.
``python -m benchmarks.latency [--samples N] [--disk DIR]``
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from benchmarks.common import deployment, json_body, machine, scratch
from connector.service.adapter import Adapter

CALLED = """
import time


def take(customer, event):
    with open("called", "a") as file:
        file.write(f"{time.time()}\\n")
"""
REQUESTS = """
static_metaobject: MO_Requests
Default: {OutputDestination: queue://in, ResponseTimeout: 60000, TimeoutFatal: false}
rules:
  Customer_Create: {}
"""
ASKING = """
provider: {type: dropbox, root: ./data, create: true}
connector:
  ApplicationName: asking
  ConfigurationMetaObject: MO_Requests
  DataHandlerMimeType: application/json
metaobjects: ./metaobjects
"""
WARM_UP = 10
PATIENCE = 60.0


@contextmanager
def service(directory: Path, *, wake: bool, reply: bool = False) -> Iterator[None]:
    """An adapter that runs, and traces when it claims a message."""
    file = deployment(directory, ["in"])
    options = f"  PollFrequency: 1000\n  wake: {str(wake).lower()}\n  AgentTraceLevel: 1\n  PollQuantity:"
    text = file.read_text().replace("  PollQuantity:", options)
    if reply:
        text = text.replace("process: processes:take", "process: processes:take\n    reply: true")
    file.write_text(text.replace("{level: warning}", "{level: info, format: json}"))
    (directory / "processes.py").write_text(CALLED)
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "connector.cli.app", "run", "-c", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=log,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])},
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def await_lines(directory: Path, name: str, count: int) -> None:
    """Waits until a file has so many lines, seldom enough to leave the processor to others."""
    deadline = time.monotonic() + PATIENCE
    path = directory / name
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"nothing happened:\n{(directory / 'log').read_text()}")
        time.sleep(0.005)


def measure(directory: Path, samples: int, *, wake: bool) -> tuple[list[float], list[float]]:
    """Milliseconds from each ``mv`` to the claim, and to the call."""
    base = directory / "data" / "in" / "incoming"
    archive = directory / "data" / "archive" / "incoming" / "target"
    moved = {}
    order = []
    with service(directory, wake=wake):
        for number in range(-WARM_UP, samples):
            while not (base / "target").is_dir():
                time.sleep(0.1)
            identity = f"{time.time_ns() // 1000:016d}-{number + WARM_UP}"
            (base / "working" / identity).write_bytes(json_body(number + WARM_UP))
            moved[f"ID:{identity}"] = time.time()
            os.rename(base / "working" / identity, base / "target" / f"4.{identity}.T....CUST_IN")
            order.append(f"ID:{identity}")
            await_lines(directory, "called", len(order))
            deadline = time.monotonic() + PATIENCE
            while not archive.is_dir() or len(os.listdir(archive)) < len(order):
                assert time.monotonic() < deadline, "nothing is archived"
                time.sleep(0.005)
            time.sleep(random.uniform(0.02, 0.06 if wake else 1.0))
    called = [float(line) for line in (directory / "called").read_text().split()]
    claimed = {}
    for line in (directory / "log").read_text().splitlines():
        said = json.loads(line)
        if said["event"] == "message detected":
            claimed[said["message_id"]] = datetime.fromisoformat(said["timestamp"]).timestamp()
    kept = order[WARM_UP:]
    return (
        [(claimed[one] - moved[one]) * 1000 for one in kept],
        [(at - moved[one]) * 1000 for one, at in zip(kept, called[WARM_UP:], strict=True)],
    )


def ask(directory: Path, samples: int, *, wake: bool) -> list[float]:
    """Milliseconds from each request to its reply."""
    (directory / "metaobjects").mkdir()
    (directory / "metaobjects" / "requests.yaml").write_text(REQUESTS)
    (directory / "asking.yaml").write_text(ASKING)
    taken = []
    with service(directory, wake=wake, reply=True), Adapter.from_file(directory / "asking.yaml") as adapter:
        for number in range(-WARM_UP, samples):
            began = time.perf_counter()
            result = adapter.request("Customer.Create", {"CustomerId": str(number + WARM_UP)})
            taken.append((time.perf_counter() - began) * 1000)
            assert result.good, result.message
            time.sleep(random.uniform(0.02, 0.06 if wake else 1.0))
    return taken[WARM_UP:]


def percentiles(values: Sequence[float]) -> str:
    """Median and 99th percentile, with the smallest and largest."""
    ninety_ninth = statistics.quantiles(values, n=100, method="inclusive")[98]
    return (
        f"p50 {statistics.median(values):,.1f}, p99 {ninety_ninth:,.1f} "
        f"({min(values):,.1f} to {max(values):,.1f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--disk", default="/dev/shm", help="where the messages are")
    arguments = parser.parse_args()
    print(machine())
    for wake, samples in ((True, arguments.samples), (False, max(2, arguments.samples // 10))):
        with scratch(arguments.disk) as directory:
            to_claim, to_call = measure(directory, samples, wake=wake)
        rest = [call - claim for call, claim in zip(to_call, to_claim, strict=True)]
        print(f"{samples} messages, wake: {str(wake).lower()}")
        print(f"  mv to call   {percentiles(to_call)} ms")
        print(f"  mv to claim  {percentiles(to_claim)} ms")
        print(f"  claim to call {percentiles(rest)} ms")
        with scratch(arguments.disk) as directory:
            print(f"  request to reply {percentiles(ask(directory, samples, wake=wake))} ms")


if __name__ == "__main__":
    main()
