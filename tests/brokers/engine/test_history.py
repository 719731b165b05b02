"""The history at a broker: rows follow the commit, and the last batch before a crash may be missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from connector.messaging.history import History
from connector.operate.history import find_ids, find_now, read_all, read_life
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.conftest import Run
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.test_kills import kill
from tests.brokers.engine.world import deploy, send

BATCH = 10


def history_of(provider: LentProvider) -> History:
    return provider.state("lent").history()


def test_each_event_is_told_once_with_its_sent_messages(
    provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "fail", "")
    adapter.drain()
    events = read_all(history_of(provider), 0.0)
    assert {one.id: one.row.what for one in events} == dict(
        zip(sent, ("published", "failed", "published"), strict=True)
    )
    assert len(events) == 3
    assert {tuple(one.row.sent) for one in events} == {("queue://crm",), ()}
    assert find_ids(history_of(provider), key="2") == [sent[2]]
    life = read_life(history_of(provider), sent[2])
    connection = provider.connect()
    now = find_now(connection, life.ids, life.destinations(), shows_all=False)
    connection.close()
    assert {(one["destination"], one["state"]) for one in now} == {
        ("queue://archive", "waiting"),
        ("queue://crm", "waiting"),
    }


def test_a_transaction_that_goes_back_is_not_told_as_published(
    provider: LentProvider, adapter: InProcessAdapter
) -> None:
    send(provider, "", "sleep", "")
    adapter.poll()
    assert [one.row.what for one in read_all(history_of(provider), 0.0)] == ["given_back"]


@pytest.mark.process
@pytest.mark.parametrize("step", ["begin", "done", "deliver", "history"])
def test_after_a_kill_no_event_is_told_wrongly(
    tmp_path: Path, provider: LentProvider, run: Run, step: str
) -> None:
    deploy(tmp_path, order="none")
    sent = send(provider, *[""] * (BATCH + 2))
    kill(run, step)
    assert run()[0] == 0
    told = Counter(one.id for one in read_all(history_of(provider), 0.0) if one.row.what == "published")
    assert set(told) <= set(sent)
    assert set(told.values()) <= {1}
    assert len(sent) - len(told) <= BATCH
