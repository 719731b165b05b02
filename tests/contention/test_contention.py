"""Several processes consume one queue: nothing is lost, nothing is taken twice, and all get their share."""

from __future__ import annotations

import pytest

from tests.contention.crew import Crew

QUEUE = "queue://orders"


@pytest.mark.parametrize(("processes", "batch"), [(2, 16), (8, 1)])
def test_processes_that_compete_take_each_message_once(workers: Crew, processes: int, batch: int) -> None:
    workers.run("send", QUEUE, "--count", 3000, "--batch", 500)
    consumers = [workers.start("consume", QUEUE, "--batch", batch, "--log") for _ in range(processes)]
    workers.go(consumers)
    counts = [report.count for consumer in consumers if (report := workers.wait(consumer))]
    ledger = workers.ledger("orders")
    assert ledger.kept, str(ledger)
    assert not ledger.redelivered
    assert sum(counts) == len(ledger.sent) == 3000


def test_processes_that_have_work_to_do_share_the_messages(workers: Crew) -> None:
    """Nobody starves: each gets half of its fair share at least."""
    workers.run("send", QUEUE, "--count", 1600, "--batch", 800)
    consumers = [workers.start("consume", QUEUE, "--work", 0.002) for _ in range(8)]
    workers.go(consumers)
    counts = [report.count for consumer in consumers if (report := workers.wait(consumer))]
    assert sum(counts) == 1600
    assert min(counts) >= 100, counts


def test_senders_and_consumers_that_compete_lose_nothing(workers: Crew) -> None:
    """Each fourth claim is given back: it comes again, counted, to whoever takes it."""
    senders = [workers.start("send", QUEUE, "--count", 600, "--batch", batch) for batch in (1, 7)]
    options = ("--give-back", 0.25, "--log", "--patience", 1.5)
    consumers = [workers.start("consume", QUEUE, "--batch", batch, *options) for batch in (1, 5, 20)]
    workers.go([*consumers, *senders])
    for worker in [*senders, *consumers]:
        assert workers.wait(worker)
    ledger = workers.ledger("orders")
    assert ledger.kept, str(ledger)
    assert len(ledger.done) == len(ledger.sent) == 1200
    assert ledger.redelivered
    assert workers.files("orders/incoming/target", "orders/incoming/processing") == []
