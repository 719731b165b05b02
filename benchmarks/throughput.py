"""Events a second from ``target/`` through conversion and a process to the archive.

Beside one plain process that lists, renames, reads, parses, calls and renames, and promises nothing
after a crash. ``python -m benchmarks.throughput [--messages N] [--runs N] [--disk DIR]``
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

import orjson

from benchmarks.common import deployment, fill, json_body, machine, scratch, spread
from connector.service.adapter import Adapter


def plain(root: Path, queues: list[str]) -> int:
    """The reference: no Spark, no journal, no record, no check."""
    archive = root / "archive" / "incoming" / "target"
    os.makedirs(archive, exist_ok=True)
    done = 0
    seen = 0
    for queue in queues:
        base = f"{root}/{queue}/incoming"
        for name in sorted(os.listdir(f"{base}/target")):
            claimed = f"{base}/processing/{name}"
            os.rename(f"{base}/target/{name}", claimed)
            with open(claimed, "rb") as file:
                customer = orjson.loads(file.read())
            if customer["CustomerId"]:
                seen += 1
            os.rename(claimed, f"{archive}/{name}")
            done += 1
    return done


def measure(directory: Path, queues: list[str], messages: int, runs: int) -> tuple[list[float], list[float]]:
    """Plain and adapter rates, in turn, each run on fresh messages."""
    file = deployment(directory / "adapter", queues)
    share = messages // len(queues)
    plain_rates, adapter_rates = [], []
    with Adapter.from_file(file) as adapter:
        root = directory / "adapter" / "data"
        for queue in queues:
            fill(root, queue, 2000 // len(queues), json_body, start=10_000_000)
        adapter.drain()
        for number in range(runs):
            reference = directory / f"plain-{number}"
            for index, queue in enumerate(queues):
                fill(reference, queue, share, json_body)
                fill(root, queue, share, json_body, start=(number * len(queues) + index) * share)
            started = time.perf_counter()
            assert plain(reference, queues) == share * len(queues)
            plain_rates.append(share * len(queues) / (time.perf_counter() - started))
            before = adapter.summary.total.published
            started = time.perf_counter()
            adapter.drain()
            seconds = time.perf_counter() - started
            published = adapter.summary.total.published - before
            assert published == share * len(queues), adapter.summary.total.as_dict()
            adapter_rates.append(published / seconds)
    return plain_rates, adapter_rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--queues", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--disk", help="a directory on a disk, measured instead of tmpfs")
    arguments = parser.parse_args()
    print(machine())
    for count in arguments.queues:
        queues = [f"in{number}" for number in range(count)]
        with scratch(arguments.disk or "/dev/shm") as directory:
            plain_rates, rates = measure(directory, queues, arguments.messages, arguments.runs)
        ratio = statistics.median(a / b for a, b in zip(rates, plain_rates, strict=True))
        what = f"{count} queue{'s' * (count > 1)}"
        print(f"{what}: adapter {spread(rates)}/s, plain {spread(plain_rates)}/s, ratio {ratio:.2f}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
