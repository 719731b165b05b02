"""One core and two: four queues of XML on ``local[1]`` and ``local[2]``, in turn.

``python -m benchmarks.cores [--messages N] [--runs N]``
"""

from __future__ import annotations

import argparse
import statistics
import time

from benchmarks.common import deployment, fill, machine, scratch, spread, xml_body
from connector.adapter import Adapter

QUEUES = [f"in{number}" for number in range(4)]


def measure(cores: int, messages: int) -> float:
    """Events a second."""
    with scratch() as directory:
        file = deployment(directory, QUEUES, mime_type="text/xml", master=f"local[{cores}]")
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
    one, two = [], []
    for _ in range(arguments.runs):
        one.append(measure(1, arguments.messages))
        two.append(measure(2, arguments.messages))
    ratio = statistics.median(b / a for a, b in zip(one, two, strict=True))
    print(f"one core {spread(one)}/s, two cores {spread(two)}/s, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
