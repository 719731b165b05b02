"""Many callers at once: each call completes once, with its own answer.

    python -m tests.requests.soak [--seconds 60] [--callers 1000] [--pool 1000] [--applications 2]

Callers in threads of one process, half of them by futures, applications in processes of their own, some of
whose replies come twice, and strangers on the reply queue. Prints what was counted; status 1 when a call had
no answer or another's, a request was sent twice or not at all, or a stranger's message was touched.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from connector.messaging.message import Message
from connector.requests.client import RequestClient
from connector.requests.result import RequestResult
from tests.forked_command import PipedProcess
from tests.requests.caller import ANSWER
from tests.requests.world import (
    LATE,
    REPLIES,
    REQUESTS,
    World,
    a_world,
    customer,
    is_greeted,
    shared_memory,
)
from tests.waiting import wait_for

TWICE = 50
"""One of so many requests is answered twice."""
TIMEOUT = 600_000


class Soak:
    """Callers of one client, and what has happened to them.

    Args:
        world: with the client and the strangers.
        client: whom all of them ask.
        callers: how many, at the same time.
    """

    def __init__(self, world: World, client: RequestClient, callers: int) -> None:
        self.strangers = 0
        self.completed = 0
        """Calls that have completed, however often."""
        self.right = 0
        """Calls that had their own answer."""
        self.others: Counter[str] = Counter()
        """What the rest had, by status and text."""
        self.seconds: list[float] = []
        """Of each call."""
        self._world = world
        self._client = client
        self._callers = callers
        self._lock = threading.Lock()

    def run(self, seconds: float) -> None:
        """Lets all of them call until the time is up; returns when each has its last answer."""
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._call, args=(n, end)) for n in range(self._callers)]
        for thread in threads:
            thread.start()
        while time.monotonic() < end:
            self._world.send(REPLIES, *(Message(b"a stranger's", correlation_id="c-1") for _ in range(3)))
            self.strangers += 3
            time.sleep(0.2)  # the pace of the strangers
        for thread in threads:
            thread.join()

    def _call(self, caller: int, end: float) -> None:
        number = 0
        while number == 0 or time.monotonic() < end:
            name = f"{caller}-{number}"
            begun = time.monotonic()
            if caller % 2:
                result = self._client.request("Customer.Retrieve", customer(name), timeout=TIMEOUT)
                self._complete()
            else:
                future = self._client.request_async("Customer.Retrieve", customer(name), timeout=TIMEOUT)
                future.add_done_callback(lambda _: self._complete())
                result = future.result()
            self._note(result, name, time.monotonic() - begun)
            number += 1

    def _complete(self) -> None:
        with self._lock:
            self.completed += 1

    def _note(self, result: RequestResult, name: str, seconds: float) -> None:
        with self._lock:
            self.seconds.append(seconds)
            if is_greeted(result, name):
                self.right += 1
            else:
                self.others[f"{result.status.name}: {result.message}"] += 1


def soak(*, callers: int, seconds: float, pool: int, applications: int) -> bool:
    """Whether all went as it should in a world of its own; prints what was counted."""
    with (
        tempfile.TemporaryDirectory(dir=shared_memory()) as directory,
        a_world("dropbox", Path(directory)) as world,
    ):
        return _soak(world, callers, seconds, pool, applications)


def _soak(world: World, callers: int, seconds: float, pool: int, applications: int) -> bool:
    client = world.client(pool_size=pool, pool_timeout=600.0)
    running = [PipedProcess(world.root, TWICE, script=ANSWER) for _ in range(applications)]
    try:
        for process in running:
            assert process.stdout.readline() == "ready\n"
        count = Soak(world, client, callers)
        begun = time.monotonic()
        count.run(seconds)
        taken = time.monotonic() - begun
        said = [process.communicate(timeout=120)[0].split() for process in running]
        requests, replies = (sum(map(int, numbers)) for numbers in zip(*said, strict=True))
        wait_for(lambda: len(world.browse(LATE)) == replies - requests, what="second replies are put aside")
    finally:
        for process in running:
            process.end()
    calls, stats = len(count.seconds), client.stats
    left = world.browse(REPLIES)
    untouched = sum(message.delivery_count == 1 and message.correlation_id == "c-1" for message in left)
    p50, p99 = statistics.median(count.seconds), statistics.quantiles(count.seconds, n=100)[98]
    print(
        f"{callers} callers, {pool} in flight: {calls:,} calls in {taken:.1f} s "
        f"({calls / taken:,.0f}/s), p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms; "
        f"{count.right:,} right, {count.completed:,} completed, {requests:,} requests seen, "
        f"{stats.duplicate_replies} duplicate and {stats.late_replies} late replies of "
        f"{replies - requests} too many, {untouched} of {count.strangers} strangers untouched"
        + "".join(f"\n  {number} times {what}" for what, number in count.others.items()),
        flush=True,
    )
    return (
        calls == count.right == count.completed == requests
        and (stats.duplicate_replies, stats.late_replies) == (replies - requests, 0)
        and untouched == count.strangers == len(left)
        and not world.browse(REQUESTS)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--callers", type=int, default=1000)
    parser.add_argument("--pool", type=int, nargs="*", default=[1000, 50])
    parser.add_argument("--applications", type=int, default=2)
    options = parser.parse_args()
    logging.getLogger("connector.requests").setLevel(logging.ERROR)  # each duplicate is a warning
    each = options.seconds / len(options.pool)
    good = [
        soak(callers=options.callers, seconds=each, pool=pool, applications=options.applications)
        for pool in options.pool
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
