"""A broker that refuses the copy of one message holds up that message only."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.messaging.message import Message
from connector.status import ReturnCode
from connector.testing.deployment import Deployment, InProcessAdapter
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, running, seen, send, stored


def has_wish(message: Message, wish: bytes) -> bool:
    return wish in message.body


@pytest.mark.parametrize("position", [0, 9, 11])
def test_a_refused_copy_fails_its_event_and_no_other(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter, position: int
) -> None:
    wishes = [""] * 12
    wishes[position] = "odd"
    sent = send(provider, *wishes)
    provider.broker.refuses = lambda queue, message: queue == "archive" and has_wish(message, b"odd")
    assert adapter.drain().code is ReturnCode.SUCCEED
    assert ids(provider, "error") == [sent[position]]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(set(sent) - {sent[position]})
    assert stored(deployment) == sorted(f"{number} 1" for number in range(12)), "each was called once"
    (error,) = seen(provider, "error")
    assert "the broker refuses a message of its settlement" in str(error.properties["connector_reason"])
    assert error.properties["connector_delivered"] == "store"
    assert b"odd" in error.body
    assert ids(provider, "customers") == []


@pytest.mark.parametrize("position", [0, 11])
def test_a_refused_copy_of_a_message_in_progress_holds_up_no_other(
    tmp_path: Path, provider: LentProvider, position: int
) -> None:
    deployment = deploy(tmp_path, InProgressDestination="queue://progress", DuplicateEventElimination=False)
    wishes = [""] * 12
    wishes[position] = "odd"
    sent = send(provider, *wishes)
    for stored_message in provider.broker.waiting("customers"):
        if has_wish(stored_message.message, b"odd"):
            stored_message.message.set_property("odd", 1)
    provider.broker.refuses = lambda queue, message: queue == "archive" and "odd" in message.properties
    with running(deployment, provider) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert stored(deployment) == sorted(f"{number} 1" for number in range(12)), "each was called once"
    (bare,) = [one for one in seen(provider, "archive") if b"odd" in one.body]
    assert "the broker refuses the whole copy" in str(bare.properties["connector_reason"])
    assert (ids(provider, "customers"), ids(provider, "progress")) == ([], [])


def test_a_message_that_a_subscription_cannot_send_fails_its_event(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "", "odd", "")
    provider.broker.refuses = lambda queue, message: queue == "crm" and has_wish(message, b"odd")
    adapter.drain()
    assert ids(provider, "error") == [sent[1]]
    assert sorted(map(str, ids(provider, "archive"))) == sorted([sent[0], sent[2]])
    assert len(ids(provider, "crm")) == 2


def test_a_copy_whose_properties_no_queue_takes_keeps_its_body(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    send(provider, "odd", "")
    (stored_message, _) = provider.broker.waiting("customers")
    stored_message.message.set_property("odd", 1)
    provider.broker.refuses = lambda queue, message: "odd" in message.properties and queue != "customers"
    assert adapter.drain().code is ReturnCode.SUCCEED
    (error,) = seen(provider, "error")
    assert b"odd" in error.body
    assert "odd" not in error.properties
    assert str(error.properties["connector_reason"]).count("refuses a message") == 2
    assert len(ids(provider, "archive")) == 1


def test_a_message_that_cannot_even_fail_stays_and_the_connection_lives(
    deployment: Deployment, provider: LentProvider, adapter: InProcessAdapter
) -> None:
    sent = send(provider, "odd")
    provider.broker.refuses = lambda queue, message: queue != "connector.lent.commits" and bool(message.body)
    connections = len(provider.broker.connections)
    for _ in range(5):
        assert adapter.drain().code is ReturnCode.APPRESPONSETIMEOUT
    assert ids(provider, "customers") == sent
    provider.broker.refuses = lambda queue, message: False
    adapter.drain()
    assert ids(provider, "customers") == []
    assert len(ids(provider, "archive") + ids(provider, "error")) == 1
    assert stored(deployment) == ["0 1"]
    used = [one for one in provider.broker.connections[:connections] if not one.ended]
    assert used, "the connection was not restarted"
