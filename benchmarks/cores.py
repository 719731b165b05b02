"""One core and two: four queues of XML, in turn.

One core is one core for all of it: driver, Java, workers; ``local[1]``. Between the two stands ``local[1]``
on two cores, where driver and Java have one of their own.
``python -m benchmarks.cores [--messages N] [--runs N]``
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

from benchmarks.common import deployment, fill, machine, scratch, spread, xml_body
from connector.service.adapter import Adapter

QUEUES = [f"in{number}" for number in range(4)]


def measure(cores: int, slots: int, messages: int) -> float:
    """Events a second, on so many cores and with so many tasks at a time."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:cores])  # what is started inherits it
    try:
        return _measure(slots, messages)
    finally:
        os.sched_setaffinity(0, allowed)


def _measure(slots: int, messages: int) -> float:
    with scratch() as directory:
        file = deployment(directory, QUEUES, mime_type="text/xml", master=f"local[{slots}]")
        root = directory / "data"
        share = messages // len(QUEUES)
        with Adapter.from_file(file) as adapter:
            for queue in QUEUES:
                fill(root, queue, 1000, xml_body, start=10_000_000)
            adapter.drain()
            for queue in QUEUES:
                fill(root, queue, share, xml_body)
            before = adapter.summary.total.published
            started = time.perf_counter()
            adapter.drain()
            seconds = time.perf_counter() - started
            published = adapter.summary.total.published - before
            assert published == share * len(QUEUES), adapter.summary.total.as_dict()
            return published / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    print(machine())
    rates: dict[tuple[int, int], list[float]] = {(1, 1): [], (2, 1): [], (2, 2): []}
    for _ in range(arguments.runs):
        for (cores, slots), values in rates.items():
            values.append(measure(cores, slots, arguments.messages))
    ratio = statistics.median(b / a for a, b in zip(rates[1, 1], rates[2, 2], strict=True))
    for (cores, slots), values in rates.items():
        print(f"{cores} core{'s' * (cores > 1)}, local[{slots}]: {spread(values)}/s")
    print(f"two cores over one: {ratio:.2f}")


if __name__ == "__main__":
    main()
