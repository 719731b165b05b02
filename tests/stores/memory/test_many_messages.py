"""What a client does takes no more steps where many messages wait."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from connector.messaging.destination import parse_destination
from connector.messaging.message import Message, delivery_time_after
from connector.stores.engine.connection import LocalConnection
from connector.stores.memory.provider import MemoryProvider
from tests.tables import Table

ORDERS = parse_destination("queue://orders")
FEW, MANY = 10, 2_000

Text = Callable[..., Message]


def steps(action: Callable[[], object]) -> int:
    """Does something, and returns the number of lines that ran. Coverage adds instructions, but no lines."""
    number = 0

    def count(_: FrameType, event: str, argument: object) -> Any:
        nonlocal number
        number += event == "line"
        return count

    tracing = sys.gettrace()
    gc.collect()
    gc.disable()  # what is collected may call Python
    sys.settrace(count)
    try:
        action()
    finally:
        sys.settrace(tracing)
        gc.enable()
    return number


def take(connection: LocalConnection, selector: str = "") -> Callable[[], object]:
    """Returns a claim of a message, after a first claim that has seen what waits."""
    poller = connection.poller(ORDERS, selector=selector)
    poller.claim(1, range(1))
    return lambda: poller.claim(2, range(1))


def end_the_dead(connection: LocalConnection) -> None:
    for one in connection.leftovers(None, at_start=False):
        one.forget()


def test_a_claim_takes_as_many_steps_however_many_messages_wait(text: Text) -> None:
    cases: dict[str, tuple[str, dict[str, object]]] = {
        "waiting": ("", {}),
        "expiring": ("", {"expiration": delivery_time_after(3_600_000)}),
        "delayed": ("", {"delivery_time": delivery_time_after(3_600_000)}),
        "rejected": ("JMSType = 'T'", {}),
        "selected": ("JMSType = 'T'", {"type": "T"}),
    }
    with Table() as table:
        for name, (selector, headers) in cases.items():
            with table.row(name):
                found = []
                for number in (FEW, MANY):
                    connection = MemoryProvider(max_bytes=1 << 30).connect()
                    connection.send(ORDERS, [text("1", **headers) for _ in range(number)])
                    found.append(steps(take(connection, selector)))
                assert found[0] == found[1]


def test_a_takeover_takes_as_many_steps_however_many_messages_wait(text: Text) -> None:
    found = []
    for number in (FEW, MANY):
        provider = MemoryProvider(max_bytes=1 << 30)
        dead, other = provider.connect(), provider.connect()
        other.send(ORDERS, [text("1") for _ in range(number)])
        take(dead)()
        dead.abandon()
        found.append(steps(partial(end_the_dead, other)))
    assert found[0] == found[1]
