"""What a claim costs while 100,000 messages wait for their time; beside the same queue without them.

``python -m benchmarks.delayed [--runs N]``
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from benchmarks.common import machine, scratch, spread
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.sql.registration import KIND

ORDERS = parse_destination("queue://orders")
WAITING, SENT = 100_000, 1_000


def microseconds(connection: Connection, poller: Poller, runs: int) -> tuple[list[float], list[float]]:
    """Returns the time of claims that find a message, and of claims that find none."""
    found: list[float] = []
    empty: list[float] = []
    for _ in range(runs):
        connection.send(ORDERS, [Message(b"order", "T")])
        for times, number in ((found, 1), (empty, 0)):
            started = time.perf_counter()
            claims = poller.claim(time.monotonic_ns(), range(25))
            times.append((time.perf_counter() - started) * 1e6)
            assert len(claims) == number
            connection.settle([Settlement(claim) for claim in claims])
    return found, empty


def delay(connection: Connection) -> None:
    """Lets messages wait for an hour."""
    due = int((time.time() + 3600) * 1000)
    for _ in range(WAITING // SENT):
        messages = [Message(b"order", "T") for _ in range(SENT)]
        for message in messages:
            message.delivery_time = due
        connection.send(ORDERS, messages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    arguments = parser.parse_args()
    print(machine())
    with scratch() as directory:
        providers: dict[str, Callable[[], Connection]] = {
            "dropbox": lambda: DropboxProvider(directory / "root", create=True).connect(),
            "SQLite": lambda: KIND.open(f"sqlite:///{directory}/messages.db").connect(),
        }
        for name, connect in providers.items():
            connection = connect()
            poller = connection.poller(ORDERS)
            before = microseconds(connection, poller, arguments.runs)
            delay(connection)
            after = microseconds(connection, poller, arguments.runs)
            for what, without, beside in zip(("a claim", "an empty claim"), before, after, strict=True):
                print(f"{name}, {what}: {spread(beside, 0)} us, without them {spread(without, 0)} us")
            started = time.perf_counter()
            assert sum(1 for _ in poller.delayed()) == WAITING
            print(f"{name}, a look at all of them at the start: {time.perf_counter() - started:.1f} s")
            connection.close()


if __name__ == "__main__":
    main()
