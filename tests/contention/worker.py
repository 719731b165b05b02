"""One client among many: a sender or a consumer in a process of its own, with a ledger of what it did.

    python -m tests.contention.worker ROOT LEDGER {send,consume} DESTINATION [options]

A ledger has one line a step, written with one call before and after the provider is asked, so that it is
right even when its writer is killed between two of them (see :mod:`tests.contention.ledger`). A worker says
``ready``, begins when a line arrives on its standard input, and ends with a line of figures.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Sequence

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider

NO_LIMIT = 1 << 40


class Writer:
    """Appends lines to a ledger; nothing of a line is lost with the process."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def __call__(self, *lines: str) -> None:
        os.write(self._file, "".join(f"{line}\n" for line in lines).encode())


def send(connection: Connection, destination: Destination, options: argparse.Namespace) -> int:
    """Sends ``count`` messages in batches; the body of each is its key."""
    write = Writer(options.ledger)
    for first in range(0, options.count, options.batch):
        keys = [f"{options.name}-{n}" for n in range(first, min(first + options.batch, options.count))]
        if options.log:
            write(*(f"attempt {key}" for key in keys))
        connection.send(destination, [Message(key.encode().ljust(options.size)) for key in keys])
        write(*(f"sent {key}" for key in keys))
    return int(options.count)


def consume(connection: Connection, poller: Poller, options: argparse.Namespace) -> int:
    """Takes and settles until nothing comes any more; gives some back, if told so."""
    write = Writer(options.ledger)
    access = connection.access().open()
    chance = random.Random(options.name)
    archive = parse_destination(options.copy_to) if options.copy_to else None
    found = cycle = 0
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < options.patience:
        cycle += 1
        claims = _take(poller, cycle, options.batch)
        if not claims:
            connection.check()
            time.sleep(0.005)  # a consumer that polls, as a foreign one does
            continue
        lines = []
        for claim in claims:
            key = access.load(claim.reference, NO_LIMIT).body.decode().strip()
            lines.append(f"{key} {claim.delivery_count}")
        if options.log:
            write(*(f"delivered {line}" for line in lines))
        returned = [chance.random() < options.give_back for _ in claims]
        connection.settle(
            [
                Settlement(c, give_back=True, delivery_count=c.delivery_count + 1)
                if back
                else Settlement(c, copy_to=archive)
                for c, back in zip(claims, returned, strict=True)
            ]
        )
        done = [line for line, back in zip(lines, returned, strict=True) if not back]
        write(*(f"done {line}" for line in done))
        found += len(done)
        if options.work:
            time.sleep(options.work)
        idle_since = time.monotonic()
    return found


def recover(connection: Connection) -> int:
    """Takes over from the dead: what they had claimed comes again, counted."""
    count = 0
    for leftover in connection.leftovers(None, at_start=True):
        claims = leftover.claims
        connection.settle(
            [Settlement(c, give_back=True, delivery_count=c.delivery_count + 1) for c in claims]
        )
        leftover.forget()
        count += len(claims)
    return count


def _take(poller: Poller, cycle: int, count: int) -> list[Claim]:
    claims: list[Claim] = []
    while len(claims) < count and (claim := poller.take(cycle, len(claims))) is not None:
        claims.append(claim)
    return claims


class Races:
    """Counts the renames that come too late, and what they cost."""

    def __init__(self) -> None:
        self.lost = 0
        self.seconds = 0.0
        self._rename = os.rename
        os.rename = self  # type: ignore[assignment]

    def __call__(self, source: str, target: str) -> None:
        begun = time.thread_time()  # of the processor: waiting for one's turn is no cost of the race
        try:
            self._rename(source, target)
        except FileNotFoundError:
            self.lost += 1
            self.seconds += time.thread_time() - begun
            raise


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("root")
    parser.add_argument("ledger")
    parser.add_argument("role", choices=["send", "consume"])
    parser.add_argument("destination", type=parse_destination)
    parser.add_argument("--name", default=str(os.getpid()))
    parser.add_argument("--subscription", default="", help="durable, shared")
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--copy-to", default="")
    parser.add_argument("--give-back", type=float, default=0.0, help="how many of the claims, 0 to 1")
    parser.add_argument("--patience", type=float, default=0.5, help="seconds without a message")
    parser.add_argument("--durable", action="store_true")
    parser.add_argument("--log", action="store_true", help="also what is tried, not only what is done")
    parser.add_argument("--work", type=float, default=0.0, help="seconds of rest after each settlement")
    parser.add_argument("--races", action="store_true", help="count and time the claims that came too late")
    options = parser.parse_args(arguments)
    races = Races() if options.races else None
    connection = DropboxProvider(options.root, create=True, durable=options.durable).connect()
    recovered = recover(connection)
    poller = None
    if options.role == "consume":
        source = options.destination
        if options.subscription:
            source = TopicSubscription(options.destination, options.subscription, durable=True, shared=True)
        poller = connection.poller(source)
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.monotonic()
    if poller is None:
        count = send(connection, options.destination, options)
        seconds = time.monotonic() - begun
    else:
        count = consume(connection, poller, options)
        seconds = time.monotonic() - begun - options.patience
    connection.close()
    lost = f"{races.lost} {races.seconds:.6f}" if races else "0 0"
    print(f"{count} {recovered} {seconds:.6f} {lost}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
