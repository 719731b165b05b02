"""What a claim costs with 1 thousand, 100 thousand and 1 million messages waiting.

Beside a bare rename of the same files. Then a look at as many messages of which a selector wants none.
``python -m benchmarks.claim_cost [--runs N] [--disk DIR]``
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

from benchmarks.common import machine, scratch, spread
from connector.messaging.destination import parse_destination
from connector.stores.dropbox.provider import DropboxProvider

BACKLOGS = (1_000, 100_000, 1_000_000)
POLL = 1000


def fill_empty(root: Path, count: int) -> None:
    """Empty messages: a claim reads no body."""
    target = root / "in" / "incoming" / "target"
    for folder in ("working", "target", "processing", "processed", "expired", "error"):
        (target.parent / folder).mkdir(parents=True, exist_ok=True)
    micros = time.time_ns() // 1000
    for number in range(count):
        os.close(os.open(f"{target}/4.{micros + number:016d}-{number}.T", os.O_WRONLY | os.O_CREAT))


def measure(root: Path, backlog: int) -> tuple[float, float]:
    """Microseconds a claim and a bare rename, over the whole backlog, the listing included."""
    fill_empty(root, backlog)
    connection = DropboxProvider(root, create=True).connect()
    poller = connection.poller(parse_destination("in"))
    started = time.perf_counter()
    taken = 0
    cycle = 0
    while True:
        cycle += 1
        claims = len(poller.claim(cycle, range(POLL)))
        taken += claims
        if claims < POLL:
            break
    claim = (time.perf_counter() - started) / taken * 1e6
    assert taken == backlog, taken
    connection.abandon()
    incoming = root / "in" / "incoming"
    return claim, bare_rename(incoming / "processing", incoming / "target")


def bare_rename(source: Path, target: Path) -> float:
    """Microseconds a rename."""
    names = os.listdir(source)[:100_000]
    started = time.perf_counter()
    for name in names:
        os.rename(f"{source}/{name}", f"{target}/{name}")
    return (time.perf_counter() - started) / len(names) * 1e6


def measure_selector(root: Path, backlog: int) -> tuple[float, float]:
    """Microseconds a message of a poll that rejects all of them, and a bare rename."""
    fill_empty(root, backlog)
    connection = DropboxProvider(root, create=True).connect()
    poller = connection.poller(parse_destination("in"), selector="JMSPriority > 8")
    started = time.perf_counter()
    assert not poller.claim(1, range(POLL))
    rejected = (time.perf_counter() - started) / backlog * 1e6
    connection.close()
    incoming = root / "in" / "incoming"
    return rejected, bare_rename(incoming / "target", incoming / "processing")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--disk", help="a directory on a disk, measured instead of tmpfs")
    arguments = parser.parse_args()
    print(machine())
    for what, function in (("claim", measure), ("rejected by a selector", measure_selector)):
        medians = {}
        for backlog in BACKLOGS:
            costs, renames = [], []
            for _ in range(arguments.runs * (20 if backlog == BACKLOGS[0] else 1)):
                with scratch(arguments.disk or "/dev/shm") as directory:
                    cost, rename = function(directory, backlog)
                costs.append(cost)
                renames.append(rename)
            medians[backlog] = statistics.median(c / r for c, r in zip(costs, renames, strict=True))
            print(
                f"{backlog:,} waiting: {what} {spread(costs, 1)} us, bare rename {spread(renames, 1)} us, "
                f"ratio {medians[backlog]:.2f}"
            )
        print(f"1,000,000 over 1,000: {medians[BACKLOGS[-1]] / medians[BACKLOGS[0]]:.2f}")


if __name__ == "__main__":
    main()
