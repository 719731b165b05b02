"""Events whose delivery failed for a while wait in a queue of the adapter, and come again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from connector.messaging.destination import Destination
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, running, seen, send, stored
from tests.events.conftest import serving
from tests.waiting import now_ms, wait_for

LATER = "connector.lent.later"
SOON = {"first": "50ms", "most": "50ms", "attempts": 1000}


def away(directory: Path, provider: LentProvider, **connector: Any) -> tuple[Deployment, InProcessAdapter]:
    """A deployment whose application is away, and its adapter."""
    deployment = deploy(directory, store={"retry_later": SOON}, **connector)
    deployment.write("away", "")
    return deployment, running(deployment, provider)


def time_left(provider: LentProvider) -> bool:
    """Whether an event waits whose time has not come."""
    waiting = provider.broker.waiting(LATER)
    return any(int(one.message.properties["connector_due"]) >= now_ms() for one in waiting)


def come_back(deployment: Deployment, adapter: InProcessAdapter, provider: LentProvider) -> None:
    """Drains until nothing waits any more, now that the application is there."""
    (deployment.directory / "away").unlink()

    def is_done() -> bool:
        adapter.drain()
        return not ids(provider, LATER) + ids(provider, "customers")

    wait_for(is_done, what="events that come again")


@pytest.mark.parametrize(
    ("order", "in_progress"),
    [("none", ""), ("destination", ""), ("group", "queue://progress"), ("destination", "queue://progress")],
)
def test_an_event_outlasts_an_application_that_is_away(
    tmp_path: Path, provider: LentProvider, order: str, in_progress: str
) -> None:
    more = {"InProgressDestination": in_progress, "InDoubtEvents": "Reprocess"} if in_progress else {}
    provider.broker.limit = 3
    deployment, adapter = away(tmp_path, provider, order=order, **more)
    with adapter:
        sent = send(provider, "away", "", "away", "")
        for _ in range(5):  # more often than the broker would deliver
            adapter.poll()
            wait_for(lambda: not time_left(provider), what="all are due")
        waiting = ids(provider, LATER)
        behind = order == "destination" and not in_progress  # the transaction is never rolled back
        assert waiting == (sent if behind else sent[:1] if order == "destination" else [sent[0], sent[2]])
        assert ids(provider, "error") == []
        come_back(deployment, adapter, provider)
        counts = adapter.summary.as_dict()
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == 4
    assert sorted(stored(deployment)) == ["0 1", "1 1", "2 1", "3 1"]
    assert (counts["published"], counts["failed"]) == (4, 0)
    for copy in seen(provider, "archive"):
        assert not {"connector_due", "connector_held_for", "connector_retries"} & set(copy.properties)
    assert ids(provider, "DLQ") == []
    if order == "destination":
        assert [str(one) for one in ids(provider, "archive")] == sent


def test_the_adapter_shows_what_waits_with_its_time(tmp_path: Path, provider: LentProvider) -> None:
    _, adapter = away(tmp_path, provider)
    with adapter:
        (sent,) = send(provider, "away")
        before = time.time() * 1000
        adapter.poll()
        connection = provider.connect("lent", "other")
        (shown,) = connection.browse(Destination("queue", "customers"), delayed=True)
        connection.close()
    assert shown.message_id == sent
    assert before < shown.delivery_time <= time.time() * 1000 + 50
    assert shown.properties["connector_retries"] == "store=1"


def test_another_instance_takes_what_a_stopped_one_has_left(tmp_path: Path, provider: LentProvider) -> None:
    deployment, adapter = away(tmp_path, provider)
    with adapter:
        (sent,) = send(provider, "away")
        adapter.poll()
    (deployment.directory / "away").unlink()
    wait_for(lambda: not time_left(provider), what="it is due")
    with running(deployment, provider) as other:
        other.drain()
    assert ids(provider, "archive") == [sent]


def test_what_was_put_aside_comes_before_what_came_after_it_after_a_restart(
    tmp_path: Path, provider: LentProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connector.events.claim.event_waits._AGAIN_MS", 4000)
    deployment, adapter = away(tmp_path, provider, order="group", PollQuantity=1)
    with adapter:
        sent = send(provider, "away", "", "", group="x")
        wait_for(lambda: adapter.drain() and len(ids(provider, LATER)) == 3, what="all wait")
        (deployment.directory / "away").unlink()
        wait_for(lambda: adapter.drain() and ids(provider, "archive"), what="the second try")
        assert ids(provider, LATER) == sent[1:]
    sent += send(provider, "", group="x")
    with running(deployment, provider) as other:
        wait_for(lambda: other.drain() and len(ids(provider, "archive")) == 4, what="all are published")
    assert ids(provider, "archive") == sent


def test_a_service_takes_a_message_when_its_time_has_come(tmp_path: Path, provider: LentProvider) -> None:
    deployment, adapter = away(tmp_path, provider, PollFrequency=60_000)
    with adapter, serving(adapter):
        (sent,) = send(provider, "away")
        wait_for(lambda: ids(provider, LATER), what="the event comes again later")
        (deployment.directory / "away").unlink()
        wait_for(lambda: ids(provider, "archive") == [sent], what="the event is published")
