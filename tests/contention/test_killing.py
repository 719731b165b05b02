"""SIGKILL at every step: nothing is lost, nothing comes again without saying so.

Kills at any moment are those of test_topics, with this queue.
"""

from __future__ import annotations

import random

import pytest

from tests.contention.crew import Crew
from tests.contention.killing import ACKNOWLEDGING, CONSUMING, QUEUE, SENDING, Torture


def test_consumers_killed_at_every_step_lose_nothing_and_repeat_nothing_silently(workers: Crew) -> None:
    torture = Torture(workers, random.Random(1), topics=False)
    torture.wait(torture.send(QUEUE, "--count", 200, "--batch", 50))
    for batch, places in ((8, CONSUMING), (1, ACKNOWLEDGING)):
        for number, place in enumerate(places):
            torture.consume("orders", "--batch", batch, fault=f"{place}:{number + 2}=kill")
    assert torture.finish(), str(torture)
    assert torture.killed == len(CONSUMING) + len(ACKNOWLEDGING)
    assert len(torture.ledgers["orders"].delivered) == 200


@pytest.mark.parametrize("durable", [(), ("--durable",)], ids=["", "durable"])
def test_senders_killed_at_every_step_send_a_batch_whole_or_not_at_all(
    workers: Crew, durable: tuple[str, ...]
) -> None:
    torture = Torture(workers, random.Random(2), topics=False)
    for place in SENDING:
        torture.wait(torture.send(QUEUE, "--count", 60, "--batch", 20, *durable, fault=f"{place}:2=kill"))
    assert torture.killed == len(SENDING)
    assert torture.finish(), str(torture)
    ledger = torture.ledgers["orders"]
    batches = [
        {f"{sender}-{number}" for number in range(first, first + 20)}
        for sender in range(1, len(SENDING) + 1)
        for first in range(0, 60, 20)
    ]
    arrived = [len(batch & ledger.delivered.keys()) for batch in batches]
    assert set(arrived) == {0, 20}, arrived
