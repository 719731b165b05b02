"""What processes send at a real broker is there once, whatever is killed.

tests/crashing has more places, at a fake.
"""

from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.servers.conftest import Broker, Deploy

pytestmark = pytest.mark.process

_PROCESSES = """
def send(customer, event):
    event.send(customer, destination="queue://NAME.sent")

def book(customer, event):
    event.transaction.execute("INSERT INTO booking VALUES (?)", (customer["CustomerId"],))
    event.send(customer, destination="queue://NAME.booked")
"""
_STEPS = (
    "transaction.returned:2",
    "transaction.committed:2",
    "done:2",
    "settle.committing",
    "settle.finished",
)
"""Each lies between two steps on the way of a sent message: row, journal, commit of the broker."""
_EACH = 3
"""Messages of a run."""


@pytest.mark.parametrize(
    ("broker", "in_progress", "subscriptions", "steps"),
    [
        ("artemis", False, ("send", "book"), _STEPS),
        ("artemis", True, ("book",), ("transaction.committed:2", "settle.committing:3")),
        ("broker_j", False, ("send", "book"), ("transaction.committed:2", "done:2", "settle.committing")),
        ("broker_j", True, ("book",), ("transaction.committed:2", "settle.committing:3")),
    ],
    indirect=["broker"],
)
def test_what_a_process_sends_is_there_once_at_whatever_step_the_adapter_is_killed(
    broker: Broker, deploy: Deploy, in_progress: bool, subscriptions: tuple[str, ...], steps: tuple[str, ...]
) -> None:
    """One run after the other: each takes over from the one before, and is killed at the next step."""
    deployment = deploy(broker, in_progress=in_progress)
    deployment.write("processes.py", _PROCESSES.replace("NAME", deployment.name))
    deployment.change("databases", shop={"url": "sqlite:///./shop.db"})
    entries = {
        "send": {"object": "Customer", "name": "send", "process": "processes:send"},
        "book": {"object": "Customer", "name": "book", "process": "processes:book", "transaction": "shop"},
    }
    deployment.subscribe(*(entries[name] for name in subscriptions))
    with closing(sqlite3.connect(deployment.directory / "shop.db")) as shop:
        shop.execute("CREATE TABLE booking (customer TEXT)")
    for number, step in enumerate(steps):
        deployment.fill(_EACH, first=number * _EACH)
        assert deployment.start(fault=f"{step}=killgroup").wait() == -signal.SIGKILL, deployment.log()[-3000:]
    deployment.work()
    assert deployment.leftovers() == []
    everybody = sorted(str(number) for number in range(len(steps) * _EACH))
    with closing(sqlite3.connect(deployment.directory / "shop.db")) as shop:
        assert sorted(row[0] for row in shop.execute("SELECT customer FROM booking")) == everybody
    assert deployment.archived() == everybody
    assert sorted(deployment.customers(f"{deployment.name}.booked")) == everybody
    if "send" in subscriptions:
        assert sorted(deployment.customers(f"{deployment.name}.sent")) == everybody
