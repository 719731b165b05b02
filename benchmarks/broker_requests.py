"""Requests over a JMS broker, each beside two programs in Java with the same client library in the same run.

One ActiveMQ Artemis on loopback, messages of 1 KiB that are not persistent, and one application in Java that
sends every request back. *Java* sends, commits, receives and commits, in a transacted session of each caller.
*Camel* is ``InOut`` of Apache Camel, which has no transactions. All make JSON and read JSON. Replies come to
temporary queues, or to one queue that all callers share. Needs a JDK (``javac``) and Maven Central.
``python -m benchmarks.broker_requests [--requests N] [--runs N] [--callers N ...] [--only WORD]``
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

from benchmarks.broker import LOOPS, ROUTE, JavaProgram, url_with_user
from benchmarks.common import machine, scratch, spread
from benchmarks.requests import REQUESTS, SHARED, Series, ours, ratio, request_client, round_trips
from connector.messaging.provider import Provider
from tests.servers.conftest import ARTEMIS, Broker, resolved

_ECHOES: Final = 4
"""The sessions of the application."""
_WARM: Final = 3
"""Runs at first that do not count: compilers of Java are at work."""
_REPLIES: Final = {"temporary queues": None, "a shared queue": SHARED}
_QUEUE: Final = REQUESTS.removeprefix("queue://")

Measured = tuple[list[float], float]
Run = Callable[[], Measured]
"""Makes all exchanges. Returns the milliseconds of each, and exchanges a second."""


def in_java(program: JavaProgram, command: str) -> Measured:
    rate, *milliseconds = map(float, program.answer(command).split())
    return milliseconds, rate


def measure(
    provider: Provider, loop: JavaProgram, camel: JavaProgram, kind: str, callers: int, each: int, runs: int
) -> None:
    """Prints round trips and rates of one kind of reply queue. The runs of all take turns."""
    reply_to = _REPLIES[kind]
    shared = "" if reply_to is None else reply_to.removeprefix("queue://")
    endpoint = f"jms:queue:{_QUEUE}" + (f"?replyTo=queue:camel-{shared}" if shared else "")
    in_camel = max(5, each // 20) if shared else each  # its first replies on a shared queue take a second
    client = request_client(provider, callers, reply_to, persistent=False)
    try:
        subjects: dict[str, Run] = {
            "ours": lambda: round_trips([ours(client)] * callers, each),
            "Java": partial(in_java, loop, f"ask {_QUEUE} {shared or 'temporary'} {callers} {each}"),
            "Camel": partial(in_java, camel, f"ask {endpoint} {callers} {in_camel}"),
        }
        found = {name: Series() for name in subjects}
        for number in range(runs + _WARM):
            for name, run in subjects.items():
                measured = run()
                if number >= _WARM:
                    found[name].add(measured)
    finally:
        client.stop()
    print(f"{callers} caller{'s' * (callers > 1)}, {each} round trips each, replies on {kind}:")
    for name, one in found.items():
        print(f"    {name}: p50 {spread(one.p50, 2)} ms, p99 {spread(one.p99, 2)} ms, {spread(one.rate)}/s")
    mine = found["ours"]
    for name in ("Java", "Camel"):
        other = found[name]
        print(
            f"    ours / {name}: p50 {ratio(mine.p50, other.p50):.2f}, p99 {ratio(mine.p99, other.p99):.2f}, "
            f"rate {ratio(mine.rate, other.rate):.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000, help="a run, of all callers together")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--callers", type=int, nargs="*", default=[1, 100])
    parser.add_argument("--only", default="", help="replies with this word: temporary, shared")
    arguments = parser.parse_args()
    if shutil.which("javac") is None:
        sys.exit("benchmarks.broker_requests needs a JDK: there is no javac")
    print(machine())
    with scratch() as directory, ExitStack() as stack:
        broker = Broker("artemis", directory, resolved("artemis", ARTEMIS).paths())
        broker.start()
        stack.callback(broker.stop)
        url = url_with_user(broker.url)
        programs = []
        for name, packages in (("RequestLoop", LOOPS), ("RequestLoop", LOOPS), ("CamelRequests", ROUTE)):
            programs.append(JavaProgram(name, packages, url))
            stack.callback(programs[-1].stop)
        application, loop, camel = programs
        application.run(f"echo {_QUEUE} {_ECHOES}")
        for callers in arguments.callers:
            each = max(5, arguments.requests // callers)
            for kind in _REPLIES:
                if arguments.only in kind:
                    measure(broker.provider(), loop, camel, kind, callers, each, arguments.runs)


if __name__ == "__main__":
    main()
