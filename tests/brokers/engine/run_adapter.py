"""Programs at a broker of another process, which tests kill. The last arguments are STATE SOCKET."""

from __future__ import annotations

import json
from pathlib import Path

from connector.messaging.destination import Destination, parse_destination
from connector.operate.replay import Choice, Discard, Move, Mover, Order, Replay, carry_out
from tests.brokers.engine.server import SocketProvider
from tests.brokers.engine.world import reopen, running

ERROR = parse_destination("queue://error")
ORDERS: dict[str, Order] = {
    "replay": Replay(ERROR),
    "move": Move(Destination("queue", "aside")),
    "discard": Discard(Destination("queue", "archive"), "me"),
}


def drain(deployment: str, state: str, path: str) -> None:
    """Runs the adapter in a directory until its inputs are empty."""
    with running(reopen(Path(deployment)), SocketProvider(state, path)) as adapter:
        adapter.drain()


def move(what: str, state: str, path: str) -> None:
    """Replays, moves or discards the messages in error. Prints the document of the result."""
    mover = Mover(ERROR, Choice(), ORDERS[what])
    result = carry_out(SocketProvider(state, path), "lent", mover, yes=True, note=lambda _: None)
    print(json.dumps(result.document()))
