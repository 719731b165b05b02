"""Several processes use one root: nothing is lost, nothing is taken twice, and all get their share.

``tests/crashing`` and ``tests/crash_states`` let such processes die.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from connector.messaging.destination import parse_destination
from connector.messaging.message import FILE_NAME
from connector.messaging.settlement import Settlement
from connector.stores.dropbox.provider import DropboxProvider
from tests.contention.conftest import Crew, Report

pytestmark = pytest.mark.process

QUEUE = "queue://orders"
TOPIC = "topic://prices"


def deliveries(sent: Sequence[str], consumers: Sequence[Report]) -> Counter[str]:
    """Checks that each message is settled once, at its last delivery, and that no two have the same count.

    Returns:
        the number of deliveries of each.
    """
    settled = [one for report in consumers for one in report.settled]
    delivered = sorted(one for report in consumers for one in report.delivered)
    assert Counter(key for key, _ in settled) == dict.fromkeys(sent, 1)
    assert len(delivered) == len(set(delivered))
    assert dict(delivered) == dict(settled)
    return Counter(key for key, _ in delivered)


def test_processes_that_compete_take_each_message_once_and_share_them(workers: Crew) -> None:
    """Nobody starves: each gets half of its fair share at least."""
    sent = workers.run("send", QUEUE, count=1600, batch=800).sent
    reports = workers.go([workers.start("consume", QUEUE, work=0.002) for _ in range(8)])
    assert deliveries(sent, reports) == dict.fromkeys(sent, 1)
    assert min(len(report.settled) for report in reports) >= 100


@pytest.mark.parametrize(("destination", "subscriptions"), [(QUEUE, [""]), (TOPIC, ["audit", "books"])])
def test_senders_and_consumers_that_compete_lose_nothing(
    workers: Crew, destination: str, subscriptions: list[str]
) -> None:
    """Each fourth claim is given back: it comes again, counted, to whoever takes it."""
    for name in subscriptions:
        workers.run("consume", destination, subscription=name, patience=0)
    senders = [workers.start("send", destination, count=600, batch=batch) for batch in (1, 7)]
    options = {"give_back": 0.25, "patience": 1.5}
    consumers = [
        workers.start("consume", destination, subscription=name, batch=batch, **options)
        for name in subscriptions
        for batch in (1, 5, 20)
    ]
    reports = workers.go([*senders, *consumers])
    sent = [key for report in reports for key in report.sent]
    assert len(sent) == 1200
    for first in range(2, len(reports), 3):
        assert max(deliveries(sent, reports[first : first + 3]).values()) > 1
    for folder in ("target", "processing"):
        assert list(workers.root.glob(f"**/{folder}/*")) == []


def test_messages_that_a_foreign_program_takes_away_and_puts_back_are_taken_once(workers: Crew) -> None:
    """It does with ``mv`` what an operator might: out of the queue, and sometimes back into it."""
    provider = DropboxProvider(workers.root, create=True, durable=False)
    connection = provider.connect()
    base = workers.root / "orders" / "incoming"
    away = workers.root.with_name("away")
    away.mkdir()
    poller = connection.poller(parse_destination(QUEUE))
    names = [f"message-{number}" for number in range(1500)]
    for name in names:
        (base / "working" / name).touch()
        os.rename(base / "working" / name, base / "target" / name)
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
        taken.append(str(claim.headers().properties[FILE_NAME]))
        connection.settle([Settlement(claim)])
    while (claim := poller.take(2, len(taken))) is not None:
        taken.append(str(claim.headers().properties[FILE_NAME]))
        connection.settle([Settlement(claim)])
    connection.close()
    kept_away = os.listdir(away)
    assert len(taken) == len(set(taken))
    assert sorted(taken + kept_away) == sorted(names)
    assert len(os.listdir(base / "processed")) == len(taken)


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
