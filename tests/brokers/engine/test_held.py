"""Messages that a broker would soon put aside are held, and none of them gets into its dead letters."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector.brokers.engine.connection import RemoteConnection
from connector.errors import ProviderError
from connector.messaging.claim import Claim
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.settlement import Settlement, SettlementOpen
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, running, seen, send, stored
from tests.waiting import wait_for

ORDERS = parse_destination("queue://orders")
ARCHIVE = parse_destination("queue://archive")
HELD = "connector.shop.held"


def limited(root: Path, limit: int) -> LentProvider:
    provider = LentProvider(root / "state", redelivery_limit=limit)
    provider.broker.limit = limit
    return provider


def put(provider: LentProvider, *bodies: str) -> list[str]:
    messages = [Message(body.encode(), correlation_id=f"c{body}") for body in bodies]
    for message in messages:
        message.set_property("JMSXGroupID", "g")
        message.set_property("n", 7, "long")
    with contextlib.closing(provider.connect()) as client:
        return client.send(ORDERS, messages)


def open_poller(provider: LentProvider) -> tuple[RemoteConnection, Poller]:
    connection = provider.connect("shop", "one")
    return connection, connection.poller(ORDERS)


def give_back(connection: RemoteConnection, claims: Any) -> None:
    settle(connection, claims, give_back=True)


def settle(connection: RemoteConnection, claims: Any, *, give_back: bool = False) -> None:
    connection.settle([Settlement(claim, give_back=give_back) for claim in claims])


def take_all(connection: RemoteConnection, poller: Poller, cycle: int) -> list[str]:
    """Settles all messages, and returns their ids in the order of the claims."""
    got: list[str] = []
    while claims := poller.claim(cycle := cycle + 1, range(3)):
        if not connection.hold(claims):
            settle(connection, claims)
            got += [claim.message_id for claim in claims]
    return got


def facts(claim: Claim) -> list[Any]:
    headers = claim.headers()
    given = headers.correlation_id, headers.properties, headers.timestamp
    identity = claim.message_id, claim.identity, claim.duplicate_key  # type: ignore[attr-defined]
    return [*identity, claim.group_id, str(claim.destination), claim.delivery_count, *given]


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_what_goes_back_again_and_again_stays_out_of_the_dead_letters(root: Path, limit: int) -> None:
    provider = limited(root, limit)
    sent = put(provider, "a", "b", "c")
    connection, poller = open_poller(provider)
    first: list[Any] = []
    cycle = 0
    for cycle in range(3 * limit + 3):
        claims = poller.claim(cycle, range(3))
        first = first or [facts(one) for one in claims]
        assert [facts(one) for one in claims] == first
        if not connection.hold(claims):
            give_back(connection, claims)
    assert take_all(connection, poller, cycle) == sent
    assert "DLQ" not in provider.broker.queues
    assert provider.broker.waiting(HELD) == []


def test_a_held_message_names_its_origin_and_its_first_id(root: Path) -> None:
    """A client that is no adapter holds nothing."""
    provider = limited(root, 3)
    (sent,) = put(provider, "a")
    for connection in (provider.connect(), provider.connect("shop", "one")):
        assert HELD not in provider.broker.queues
        give_back(connection, connection.poller(ORDERS).claim(1, range(1)))
    (held,) = provider.broker.waiting(HELD)
    properties = held.message.properties
    assert properties["connector_origin_destination"] == "queue://orders"
    assert properties["connector_message_id"] == sent
    assert (properties["JMSXGroupID"], held.message.correlation_id) == ("g", "ca")


def test_held_messages_are_one_transaction_after_the_other(root: Path) -> None:
    """Where the order is none, an input is polled again while the events of its first transaction run."""
    provider = limited(root, 2)
    sent = put(provider, "a", "b")
    connection, poller = open_poller(provider)
    give_back(connection, poller.claim(1, range(2)))
    assert len(provider.broker.waiting(HELD)) == 2
    (claim,) = poller.claim(2, range(1))
    assert poller.claim(3, range(1)) == []
    settle(connection, [claim])
    assert [claim.message_id, *take_all(connection, poller, 3)] == sent


def test_a_message_that_cannot_be_held_is_kept_and_can_be_settled(root: Path) -> None:
    provider = limited(root, 3)
    (sent,) = put(provider, "a")
    provider.broker.refused.add(HELD)
    connection, poller = open_poller(provider)
    give_back(connection, poller.claim(1, range(1)))
    claims = poller.claim(2, range(1))
    for _ in range(5):
        with pytest.raises(SettlementOpen, match="takes no message"):
            give_back(connection, claims)
        assert not connection.hold(claims)
    connection.settle([Settlement(claim, ARCHIVE) for claim in claims])
    assert ids(provider, "archive") == [sent]


@pytest.mark.parametrize("obstacle", ["refused", "full"])
@pytest.mark.parametrize("in_progress", [False, True])
def test_no_delivery_is_used_up_while_no_queue_takes_a_message(
    tmp_path: Path, root: Path, obstacle: str, in_progress: bool
) -> None:
    provider = limited(root, 3)
    progress: dict[str, Any] = {
        "InProgressDestination": "queue://progress",
        "DuplicateEventElimination": False,
        "stop_timeout": "100ms",
    }
    deployment = deploy(tmp_path, **(progress if in_progress else {}))
    sent = send(provider, "", "", "")
    closed: set[str] = getattr(provider.broker, obstacle)
    closed |= {"archive", "error", "connector.lent.held", *(["progress"] if not in_progress else [])}
    with running(deployment, provider) as adapter:
        for _ in range(12):
            assert adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT
        counts = [one.message.delivery_count for one in provider.broker.queues["customers"]]
        assert max(counts, default=0) <= 2
        closed.clear()
        wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED)
    assert "DLQ" not in provider.broker.queues
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert stored(deployment) == ["0 1", "1 1", "2 1"]


@pytest.mark.parametrize("obstacle", ["refused", "full"])
def test_an_input_rests_while_nothing_can_be_moved_in_progress(
    tmp_path: Path, root: Path, obstacle: str
) -> None:
    provider = limited(root, 3)
    deployment = deploy(tmp_path, InProgressDestination="queue://progress", DuplicateEventElimination=False)
    sent = send(provider, "")
    closed: set[str] = getattr(provider.broker, obstacle)
    closed |= {"progress", "connector.lent.held"}
    with running(deployment, provider) as adapter:
        for _ in range(6):
            report = adapter.poll()
            assert (report.code, report.provider_failed) == (ReturnCode.APPRESPONSETIMEOUT, False)
        closed.clear()
        wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED)
    assert ids(provider, "archive") == sent
    assert stored(deployment) == ["0 1"]


@pytest.mark.parametrize("limit", [1, 3])
def test_an_inactive_process_costs_no_event(
    deployment: Deployment, root: Path, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    provider = limited(root, limit)
    sent = send(provider, "", "", "sleep", "", "")
    with running(deployment, provider) as adapter:
        for _ in range(3 * limit + 5):
            adapter.poll()
        deployment.write("awake", "")
        adapter.drain()
    assert stored(deployment) == [f"{number} 1" for number in range(5)]
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "crm")) == 5
    assert "DLQ" not in provider.broker.queues
    assert ids(provider, "connector.lent.held") == []
    lines = [one for one in caplog.records if one.getMessage() == "a poll ended early"]
    assert len([one for one in lines if not hasattr(one, "number")]) == 1, "one a minute for one reason"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_ends_of_transactions_lose_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    provider = limited(tmp_path_factory.mktemp("root"), data.draw(st.integers(4, 6), "limit"))
    sent = put(provider, *map(str, range(data.draw(st.integers(1, 8), "messages"))))
    got: list[str] = []
    cycle = kills = 0
    connection, poller = open_poller(provider)
    for end in data.draw(st.lists(st.sampled_from(["back", "done", "kill"]), max_size=30), "ends"):
        cycle += 1
        claims = poller.claim(cycle, range(data.draw(st.integers(1, 4), "most")))
        if not claims or connection.hold(claims):
            continue
        if end == "kill":
            kills += 1
            provider.broker.connections[-1].close()
            connection, poller = open_poller(provider)
            continue
        (give_back if end == "back" else settle)(connection, claims)
        got += [claim.message_id for claim in claims] if end == "done" else []
    got += take_all(connection, poller, cycle)
    assert sorted(got) == sorted(sent)
    assert "DLQ" not in provider.broker.queues


def test_messages_in_progress_whose_settlement_is_refused_stay_out_of_the_dead_letters(
    tmp_path: Path, root: Path
) -> None:
    provider = limited(root, 3)
    deployment = deploy(tmp_path, InProgressDestination="queue://progress", DuplicateEventElimination=False)
    sent = send(provider, "", "")
    provider.broker.refused.add("archive")
    for _ in range(8):
        with contextlib.suppress(ProviderError), running(deployment, provider) as adapter:
            adapter.drain()
    provider.broker.refused.clear()
    with running(deployment, provider) as adapter:
        adapter.drain()
    assert "DLQ" not in provider.broker.queues
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert stored(deployment) == ["0 1", "1 1"]
    assert seen(provider, "progress") == []
