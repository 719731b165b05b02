"""Replays, moves or discards the messages in error: WHAT STATE SOCKET. Prints the document of the result."""

from __future__ import annotations

import json

from connector.messaging.destination import Destination, parse_destination
from connector.operate.replay import Choice, Discard, Move, Mover, Order, Replay, carry_out
from tests.brokers.engine.server import SocketProvider

ERROR = parse_destination("queue://error")


def order(what: str) -> Order:
    """The order that a word stands for."""
    if what == "replay":
        return Replay(ERROR)
    if what == "move":
        return Move(Destination("queue", "aside"))
    return Discard(Destination("queue", "archive"), "me")


def main(what: str, state: str, path: str) -> None:
    provider = SocketProvider(state, path)
    mover = Mover(ERROR, Choice(), order(what))
    result = carry_out(provider, "lent", mover, yes=True, note=lambda _: None)
    print(json.dumps(result.document()))
