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
from dataclasses import dataclass, field
from pathlib import Path

from connector.messaging.message import Message
from connector.requests.client import RequestClient
from connector.requests.result import RequestResult
from tests.forked_command import PipedProcess
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
_ECHO = "import sys\nfrom tests.requests.echo import main\nsys.exit(main())"


@dataclass
class Count:
    """What has happened.

    Args:
        calls: requests that were made.
        completed: those that have completed, however often.
        right: those that had their own answer.
        others: what the rest had, by status and text.
        seconds: of each call.
    """

    calls: int = 0
    completed: int = 0
    right: int = 0
    others: dict[str, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


class Soak:
    """Callers of one client.

    Args:
        world: with the client and the strangers.
        client: whom all of them ask.
        callers: how many, at the same time.
    """

    def __init__(self, world: World, client: RequestClient, callers: int) -> None:
        self.count = Count()
        self.strangers = 0
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
                self._completed()
            else:
                future = self._client.request_async("Customer.Retrieve", customer(name), timeout=TIMEOUT)
                future.add_done_callback(lambda _: self._completed())
                result = future.result()
            self._note(result, name, time.monotonic() - begun)
            number += 1

    def _completed(self) -> None:
        with self._lock:
            self.count.completed += 1

    def _note(self, result: RequestResult, name: str, seconds: float) -> None:
        right = is_greeted(result, name)
        with self._lock:
            self.count.calls += 1
            self.count.seconds.append(seconds)
            self.count.right += right
            if not right:
                what = f"{result.status.name}: {result.message}"
                self.count.others[what] = self.count.others.get(what, 0) + 1


def start_applications(root: Path, number: int) -> list[PipedProcess]:
    """Applications that are ready."""
    started = [PipedProcess(root, "--twice", TWICE, script=_ECHO) for _ in range(number)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    return started


def end_applications(applications: list[PipedProcess]) -> tuple[int, int]:
    """How many requests they had, and how many replies they have sent."""
    said = [process.communicate(timeout=120)[0].split() for process in applications]
    return sum(int(requests) for requests, _ in said), sum(int(replies) for _, replies in said)


def soak(world: World, *, callers: int, seconds: float, pool: int, applications: int) -> bool:
    """Whether all went as it should; prints what was counted."""
    client = world.client(pool_size=pool, pool_timeout=600.0)
    running = start_applications(world.root, applications)
    try:
        callings = Soak(world, client, callers)
        begun = time.monotonic()
        callings.run(seconds)
        taken = time.monotonic() - begun
        count = callings.count
        requests, replies = end_applications(running)
        wait_for(
            lambda: len(world.browse(LATE)) == replies - requests,
            what="every second reply is put aside",
        )
        stats = client.stats
    finally:
        for process in running:
            process.end()
    left = world.browse(REPLIES)
    untouched = sum(message.delivery_count == 1 and message.correlation_id == "c-1" for message in left)
    p50, p99 = statistics.median(count.seconds), statistics.quantiles(count.seconds, n=100)[98]
    print(
        f"{callers} callers, {pool} in flight: {count.calls:,} calls in {taken:.1f} s "
        f"({count.calls / taken:,.0f}/s), p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms; "
        f"{count.right:,} right, {count.completed:,} completed, {requests:,} requests seen, "
        f"{stats.duplicate_replies} duplicate and {stats.late_replies} late replies of "
        f"{replies - requests} too many, {untouched} of {callings.strangers} strangers untouched"
        + "".join(f"\n  {number} times {what}" for what, number in count.others.items()),
        flush=True,
    )
    return (
        count.calls == count.right == count.completed == requests
        and stats.duplicate_replies == replies - requests
        and stats.late_replies == 0
        and untouched == callings.strangers == len(left)
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
    good = True
    for pool in options.pool:
        with (
            tempfile.TemporaryDirectory(dir=shared_memory()) as directory,
            a_world("dropbox", Path(directory)) as world,
        ):
            good &= soak(
                world,
                callers=options.callers,
                seconds=options.seconds / len(options.pool),
                pool=pool,
                applications=options.applications,
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
