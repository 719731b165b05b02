"""A foreign program moves and removes messages while a client takes them: nothing fails or is made up."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.settlement import Settlement
from connector.stores.dropbox.provider import DropboxProvider
from tests.contention.conftest import Crew

pytestmark = pytest.mark.process

ORDERS = parse_destination("queue://orders")
MESSAGES = 1500


def test_messages_that_a_foreign_program_takes_away_and_puts_back_are_taken_once(workers: Crew) -> None:
    """It does with ``mv`` what an operator might: out of the queue, and sometimes back into it."""
    provider = DropboxProvider(workers.root, create=True, durable=False)
    connection = provider.connect()
    base = workers.root / "orders" / "incoming"
    away = workers.root.with_name("away")
    away.mkdir()
    poller = connection.poller(ORDERS)
    _drop(base, MESSAGES)
    stop = threading.Event()
    operator = threading.Thread(target=_meddle, args=(base / "target", away, stop))
    operator.start()
    taken: list[str] = []
    while operator.is_alive():
        claim = poller.take(1, len(taken))
        if claim is None:
            stop.set()
            operator.join()
            continue
        taken.append(claim.message_id)
        connection.settle([Settlement(claim)])
    while (claim := poller.take(2, len(taken))) is not None:
        taken.append(claim.message_id)
        connection.settle([Settlement(claim)])
    connection.close()
    kept_away = os.listdir(away)
    assert len(taken) == len(set(taken))
    assert sorted(taken + kept_away) == sorted(f"message-{n}" for n in range(MESSAGES))
    assert len(os.listdir(base / "processed")) == len(taken)


def _drop(base: Path, count: int) -> None:
    for number in range(count):
        (base / "working" / "x").write_text(str(number))
        os.rename(base / "working" / "x", base / "target" / f"message-{number}")


def _meddle(target: Path, away: Path, stop: threading.Event) -> None:
    chance = random.Random(7)
    for _ in range(2000):
        if stop.is_set():
            return
        here, there = os.listdir(target), os.listdir(away)
        source, destination, names = (target, away, here) if chance.random() < 0.5 else (away, target, there)
        if not names:
            continue
        name = chance.choice(names)
        try:
            os.rename(source / name, destination / name)
        except FileNotFoundError:
            pass  # the client was faster
