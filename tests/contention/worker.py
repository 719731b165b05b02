"""One client among many: a sender or a consumer in a process of its own, which tells at its end what it did.

Its arguments are the root, ``send`` or ``consume``, a destination, and JSON with the named arguments of that
function. A worker says ``ready``, and begins when a line arrives on its standard input.
"""

from __future__ import annotations

import json
import random
import sys
import time

from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.provider import Connection
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider

NO_LIMIT = 1 << 40
Delivery = tuple[str, int]
"""The key of a message, and how many deliveries were begun before."""


def send(
    connection: Connection, destination: Destination, *, name: str, count: int, batch: int
) -> dict[str, list[str]]:
    """Sends ``count`` messages in batches. The body of each is its key."""
    _begin()
    keys = [f"{name}-{number}" for number in range(count)]
    for first in range(0, count, batch):
        connection.send(destination, [Message(key.encode()) for key in keys[first : first + batch]])
    return {"sent": keys}


def consume(
    connection: Connection,
    destination: Destination,
    *,
    name: str,
    batch: int = 1,
    subscription: str = "",
    give_back: float = 0.0,
    patience: float = 0.5,
    work: float = 0.0,
) -> dict[str, list[Delivery]]:
    """Takes and settles until nothing comes any more.

    Args:
        batch: how many messages are claimed and settled at once.
        subscription: its name, if the destination is a topic. It is durable and shared.
        give_back: the share of the claims that are given back, 0 to 1.
        patience: seconds without a message after which it ends.
        work: seconds of rest after each settlement.
    """
    source = destination
    wanted = TopicSubscription(source, subscription, durable=True, shared=True) if subscription else source
    poller, access = connection.poller(wanted), connection.access().open()
    _begin()
    chance = random.Random(name)
    delivered: list[Delivery] = []
    settled: list[Delivery] = []
    cycle = 0
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < patience:
        cycle += 1
        claims = poller.claim(cycle, range(batch))
        if not claims:
            connection.check()
            time.sleep(0.005)  # a consumer that polls, as a foreign one does
            continue
        outcomes = []
        for claim in claims:
            found = access.load(claim.reference, NO_LIMIT).body.decode(), claim.delivery_count
            delivered.append(found)
            if chance.random() < give_back:
                outcomes.append(Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1))
            else:
                outcomes.append(Settlement(claim))
                settled.append(found)
        connection.settle(outcomes)
        time.sleep(work)  # the work of a test, no wait
        idle_since = time.monotonic()
    return {"delivered": delivered, "settled": settled}


def _begin() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def main() -> None:
    root, role, destination, options = sys.argv[1:]
    connection = DropboxProvider(root, create=True, durable=False).connect()
    run = send if role == "send" else consume
    told = run(connection, parse_destination(destination), **json.loads(options))
    connection.close()
    print(json.dumps(told), flush=True)
