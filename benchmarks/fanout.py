"""A message to 1, 10 and 100 subscriptions, beside the bare calls: one write, so many links and renames.

``python -m benchmarks.fanout [--messages N] [--runs N] [--size BYTES] [--disk DIR]``
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common import machine, scratch, spread
from connector.messaging.destination import parse_destination
from connector.messaging.message import NON_PERSISTENT, Message
from connector.messaging.provider import Connection
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider

PRICES = parse_destination("topic://prices")


def bare(root: Path, subscriptions: int, body: bytes) -> Callable[[int], None]:
    """Sends messages: one file, a link for each subscription, a record of them, renames that show them."""
    working = f"{root}/working"
    folders = [f"{root}/{number}" for number in range(subscriptions)]
    for path in (working, *(f"{folder}/{name}" for folder in folders for name in ("working", "target"))):
        os.makedirs(path)
    line = "dropboxmq --type sent --message-file {0}/working/{1} --commit-file {0}/target/{1}\n"
    serial = 0

    def write(path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        os.write(descriptor, data)
        os.close(descriptor)

    def send(count: int) -> None:
        nonlocal serial
        for _ in range(count):
            serial += 1
            name = f"4.{serial:016d}-1.T"
            write(f"{working}/{name}", body)
            for folder in folders:
                os.link(f"{working}/{name}", f"{folder}/working/{name}")
            write(f"{root}/record", "".join(line.format(folder, name) for folder in folders).encode())
            os.rename(f"{root}/record", f"{root}/committing")
            for folder in folders:
                os.rename(f"{folder}/working/{name}", f"{folder}/target/{name}")
            os.unlink(f"{working}/{name}")
            os.unlink(f"{root}/committing")

    return send


def ours(connection: Connection, subscriptions: int, body: bytes, mode: int) -> Callable[[int], None]:
    """Sends messages to so many durable subscriptions."""
    for number in range(subscriptions):
        connection.poller(TopicSubscription(PRICES, f"s{number}", durable=True, shared=True)).close()

    def send(count: int) -> None:
        for _ in range(count):
            connection.send(PRICES, [Message(body, delivery_mode=mode)])

    return send


def rate(send: Callable[[int], None], count: int) -> float:
    begun = time.perf_counter()
    send(count)
    return count / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2000, help="deliveries a run, all together")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a body")
    parser.add_argument("--disk", default="/dev/shm", help="a directory on a disk, measured instead of tmpfs")
    arguments = parser.parse_args()
    print(machine())
    body = b"x" * arguments.size
    for subscriptions in (1, 10, 100):
        count = max(1, arguments.messages // subscriptions)
        with scratch(arguments.disk) as directory:
            provider = DropboxProvider(directory / "dropbox", create=True, durable=False)
            files, memory = provider.connect(), MemoryProvider(max_bytes=1 << 30).connect()
            senders = {
                "bare calls": bare(directory / "bare", subscriptions, body),
                "dropbox": ours(files, subscriptions, body, 2),
                "memory": ours(memory, subscriptions, body, NON_PERSISTENT),
            }
            rates: dict[str, list[float]] = {name: [] for name in senders}
            for number in range(arguments.runs + 1):
                for name, send in senders.items():
                    found = rate(send, count)
                    if number:  # the first run warms up
                        rates[name].append(found)
            files.close()
            memory.close()
        ratio = statistics.median(b / a for a, b in zip(rates["dropbox"], rates["bare calls"], strict=True))
        per = "messages/s" if subscriptions == 1 else f"messages/s to each of {subscriptions}"
        print(
            f"{subscriptions} subscriptions: dropbox {spread(rates['dropbox'])} {per}, bare calls "
            f"{spread(rates['bare calls'])}, {ratio:.2f} times; memory {spread(rates['memory'])}",
            flush=True,
        )


if __name__ == "__main__":
    main()
