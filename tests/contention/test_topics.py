"""A topic under load and under SIGKILL: every subscription gets every message, once."""

from __future__ import annotations

import random

from tests.contention.crew import Crew
from tests.contention.killing import DISTRIBUTING, FANNING, SUBSCRIPTIONS, TOPIC, Torture


def test_senders_to_a_topic_killed_at_every_step_reach_all_subscriptions_or_none(workers: Crew) -> None:
    torture = Torture(workers, random.Random(3))
    torture.prepare()
    batches = []
    for size in (1, 20):
        for place in FANNING:
            torture.wait(torture.send(TOPIC, "--count", 60, "--batch", size, fault=f"{place}:2=kill"))
            sender = workers.started
            batches += [
                {f"{sender}-{number}" for number in range(first, first + size)}
                for first in range(0, 60, size)
            ]
    assert torture.killed == 2 * len(FANNING)
    assert torture.finish(), str(torture)
    audit, books = (torture.ledgers[name].delivered.keys() for name in SUBSCRIPTIONS)
    assert audit == books
    assert all(batch <= audit or not batch & audit for batch in batches)


def test_consumers_killed_while_they_distribute_foreign_files_reach_each_subscription_once(
    workers: Crew,
) -> None:
    torture = Torture(workers, random.Random(5))
    torture.prepare()
    for batch in (1, 8):
        for number, place in enumerate(DISTRIBUTING):
            torture.drop(10)
            distributor = SUBSCRIPTIONS[number % 2]
            torture.consume(distributor, "--batch", batch, fault=f"{place}:{number + 2}=kill")
    assert torture.killed == 2 * len(DISTRIBUTING)
    assert torture.finish(), str(torture)
    sent = 2 * len(DISTRIBUTING) * 10
    assert [len(torture.ledgers[name].settled or ()) for name in SUBSCRIPTIONS] == [sent, sent]


def test_consumers_of_subscriptions_share_what_competing_senders_publish(workers: Crew) -> None:
    torture = Torture(workers, random.Random(4))
    torture.prepare()
    senders = [torture.send(TOPIC, "--count", 300, "--batch", batch) for batch in (1, 10)]
    consumers = [
        torture.consumer(name, "--batch", batch, "--patience", 1.5, "--give-back", 0.1)
        for name in SUBSCRIPTIONS
        for batch in (1, 8)
    ]
    for worker in [*senders, *consumers]:
        torture.wait(worker)
    assert torture.finish(), str(torture)
    assert [len(torture.ledgers[name].delivered) for name in SUBSCRIPTIONS] == [600, 600]


def test_kills_at_random_steps_and_moments_lose_nothing_of_a_queue_and_a_topic(workers: Crew) -> None:
    torture = Torture(workers, random.Random(21))
    assert torture.run(kills=8), str(torture)
