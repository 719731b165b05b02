"""Destinations that take nothing now delay their own events, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connector.errors import ProviderError
from connector.messaging.message import Message
from connector.service.loop import Service
from connector.testing.deployment import InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, running, send
from tests.waiting import beside, wait_for


@contextlib.contextmanager
def serving(adapter: InProcessAdapter) -> Iterator[None]:
    service = Service(adapter)
    ended = beside(service.run)
    try:
        yield
    finally:
        service.stop()
        assert ended.result(60) is None


def is_archived(provider: LentProvider, identity: str) -> bool:
    return identity in ids(provider, "archive")


def adapter_of(directory: Path, provider: LentProvider, **connector: Any) -> InProcessAdapter:
    return running(deploy(directory, PollFrequency=10, **connector), provider)


@pytest.mark.parametrize("in_progress", [True, False])
@pytest.mark.parametrize("order", ["none", "destination"])
def test_a_send_that_waits_delays_no_other_input(
    tmp_path: Path, provider: LentProvider, in_progress: bool, order: str
) -> None:
    mode = {"InProgressDestination": "queue://progress"} if in_progress else {}
    provider.broker.without_room.add("unsubscribed")
    unwanted = send(provider, "", "", kind="Order")
    sent = send(provider, "", queue="urgent")
    with adapter_of(tmp_path, provider, order=order, **mode) as adapter, serving(adapter):
        wait_for(lambda: not ids(provider, "customers"))
        for _ in range(3):
            wait_for(partial(is_archived, provider, sent[-1]))
            sent += send(provider, "", queue="urgent")
        late = send(provider, *[""] * 50, kind="Order")
        wait_for(partial(is_archived, provider, sent[-1]))
        assert ids(provider, "unsubscribed") == []
        provider.broker.make_room()
        wait_for(lambda: len(ids(provider, "unsubscribed")) == 52)
    settled = [str(one) for one in ids(provider, "unsubscribed")]
    assert (
        settled == unwanted + late if order == "destination" else sorted(settled) == sorted(unwanted + late)
    )
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert ids(provider, "progress") == []
    assert adapter.summary.as_dict()["unsubscribed"] == 52


def test_an_input_rests_until_a_destination_takes_messages_again_and_that_costs_no_delivery(
    tmp_path: Path, provider: LentProvider
) -> None:
    probes: list[str] = []

    def refuses(queue: str, message: Message) -> bool:
        probes.append(queue)
        return queue == "unsubscribed"

    provider.broker.refuses = refuses
    unwanted = send(provider, "", kind="Order")
    with adapter_of(tmp_path, provider) as adapter, serving(adapter):
        wait_for(lambda: probes.count("unsubscribed") >= 5)
        (kept,) = provider.broker.queues["customers"]
        assert kept.message.delivery_count == 2, "one transaction was rolled back"
        (note,) = provider.state("lent").instances()
        assert "unsubscribed" in note.note["closed"]["queue://customers"]
        provider.broker.refuses = lambda queue, message: False
        wait_for(lambda: ids(provider, "unsubscribed") == unwanted)


def test_a_full_destination_keeps_no_other_input_of_a_dead_client_open(
    tmp_path: Path, provider: LentProvider
) -> None:
    mode = {"InProgressDestination": "queue://progress", "InDoubtEvents": "Reprocess"}
    failing, sent = send(provider, "fail", "fail"), send(provider, "", "", "", queue="urgent")
    provider.broker.is_silent = lambda queue, message: queue == "progress"
    with contextlib.suppress(ProviderError), adapter_of(tmp_path, provider, **mode) as adapter:
        adapter.poll()
        for connection in provider.broker.connections:
            connection.close()
    provider.broker.is_silent = lambda queue, message: False
    provider.broker.full.add("error")
    with adapter_of(tmp_path, provider, **mode) as adapter, serving(adapter):
        wait_for(lambda: left_open(provider))
        assert left_open(provider).keys() == {"queue://customers"}
        assert "queue://error takes no message" in left_open(provider)["queue://customers"]
        assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
        assert adapter.obstacle == "", "its own inputs can be used"
    provider.broker.full.clear()
    with adapter_of(tmp_path, provider, **mode) as adapter, serving(adapter):
        wait_for(lambda: len(ids(provider, "error")) == 2)
        assert left_open(provider) == {}
    assert sorted(map(str, ids(provider, "error"))) == sorted(failing)
    assert ids(provider, "progress") == []


def left_open(provider: LentProvider) -> dict[str, str]:
    """What an instance says of the events of dead ones."""
    (note,) = provider.state("lent").instances()
    found: dict[str, str] = note.note.get("left_open", {})
    return found
