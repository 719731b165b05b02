"""The proofs of this directory in full size: processes that compete, and processes that are killed.

    python -m tests.contention.soak [--messages 200000] [--processes 1 2 4 8] [--seconds 300] [--seed N]

First so many processes empty one queue of so many messages, then for ``--seconds`` senders and consumers
of a queue and a topic are killed at random steps and moments. Prints what was counted; status 1 when a
message was lost, came without having been sent, or came again without saying so.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time

from tests.contention.crew import Crew, crew
from tests.contention.killing import Torture

QUEUE = "queue://orders"


def compete(workers: Crew, processes: int, messages: int, batch: int) -> bool:
    """Whether so many processes took every message once."""
    workers.run("send", QUEUE, "--count", messages, "--batch", 1000, ledger="sent")
    options = ("--batch", batch, "--races", "--patience", 2.0)
    consumers = [workers.start("consume", QUEUE, *options) for _ in range(processes)]
    workers.go(consumers)
    reports = [report for worker in consumers if (report := workers.wait(worker, 1200))]
    ledger = workers.ledger("orders", "sent")
    fair = messages / processes
    shares = sorted(report.count / fair for report in reports)
    races = sum(report.races for report in reports)
    cost = sum(report.race_seconds for report in reports) / races * 1e6 if races else 0.0
    rate = messages / max(report.seconds for report in reports)
    print(
        f"{processes} processes, settled by {batch}: {rate:,.0f}/s, share of the fair one "
        f"{shares[0]:.2f} to {shares[-1]:.2f} (median {statistics.median(shares):.2f}), "
        f"{races / messages:.2f} lost races a message, {cost:.1f} us of the processor each; {ledger}",
        flush=True,
    )
    return ledger.kept and len(ledger.done) == messages and not ledger.redelivered


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 64])
    parser.add_argument("--seconds", type=float, default=300.0, help="of killing; default 300")
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices of an earlier soak")
    options = parser.parse_args()
    good = True
    for batch in options.batch:
        for processes in options.processes:
            with crew() as workers:
                good &= compete(workers, processes, options.messages, batch)
    seed = random.randrange(1 << 30) if options.seed is None else options.seed
    end = time.monotonic() + options.seconds
    rounds = 0
    while good and time.monotonic() < end:
        with crew() as workers:
            torture = Torture(workers, random.Random(seed + rounds))
            good = torture.run(kills=25)
            print(f"seed {seed + rounds}: {torture}", flush=True)
        rounds += 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
