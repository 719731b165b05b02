"""A broker refuses one message of a settlement for good: its event has failed, and no other waits for it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.engine.connection import RemoteConnection
from connector.errors import ProviderError
from connector.messaging.destination import parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement, SettlementOpen
from connector.operate.replay import MessageChoice, Mover, Replay, carry_out
from connector.status import ReturnCode
from connector.testing.deployment import Deployment
from tests.brokers.engine.provider import LentProvider
from tests.brokers.engine.world import deploy, ids, leftovers, running, seen, send, stored
from tests.waiting import now_ms, wait_for

ORDERS, ARCHIVE, ERROR, PROGRESS = map(
    parse_destination, ("queue://orders", "queue://archive", "queue://error", "queue://progress")
)
COMMITS = "connector.lent.commits"
BOTH = pytest.mark.parametrize("in_progress", [True, False])


def deploy_so(directory: Path, in_progress: bool, **keys: Any) -> Deployment:
    mode: dict[str, Any] = {"InProgressDestination": str(PROGRESS), "InDoubtEvents": "Reprocess"}
    return deploy(directory, stop_timeout="100ms", **(mode if in_progress else {}), **keys)


def refuse(provider: LentProvider, queue: str, body: bytes = b"odd") -> None:
    """Lets a queue refuse messages with a text in their body, and take all others."""
    provider.broker.refuses = lambda name, message: name == queue and body in message.body


def ask(provider: LentProvider, number: int, reply_to: str) -> None:
    """Makes a waiting message a request."""
    provider.broker.waiting("customers")[number].message.reply_to = reply_to


def check_left(provider: LentProvider) -> None:
    """Checks that nothing waits anywhere, and that no record or mark is left."""
    assert ids(provider, "customers") == ids(provider, "progress") == []
    assert "DLQ" not in provider.broker.queues
    state: Any = provider.existing_state("lent")
    assert leftovers(state) == []
    marks = [one.message.properties for one in provider.broker.waiting(COMMITS)]
    assert [one for one in marks if "connector_directory" not in one] == []


def reason_of(copy: Message) -> str:
    return str(copy.properties["connector_reason"])


@pytest.mark.parametrize(
    ("in_progress", "order"), [(True, "none"), (True, "destination"), (False, "destination")]
)
@pytest.mark.parametrize("position", [0, 1, 11])
def test_a_refused_prepared_message_fails_its_event_and_no_other(
    tmp_path: Path, provider: LentProvider, position: int, order: str, in_progress: bool
) -> None:
    deployment = deploy_so(tmp_path, in_progress, order=order)
    wishes = [""] * 12
    wishes[position] = "odd"
    sent = send(provider, *wishes)
    others = [one for one in sent if one != sent[position]]
    refuse(provider, "crm")
    with running(deployment, provider) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
        assert adapter.summary.as_dict()["failed"] == 1
        assert adapter.summary.as_dict()["published"] == 11
    assert ids(provider, "error") == [sent[position]]
    archived = [str(one) for one in ids(provider, "archive")]
    assert archived == others if order == "destination" else sorted(archived) == sorted(others)
    (error,) = seen(provider, "error")
    assert "the broker refuses a message of its settlement: crm: no right" in reason_of(error)
    assert error.properties["connector_delivered"] == "store"
    assert stored(deployment) == sorted(f"{number} 1" for number in range(12)), "each was called once"
    assert len(ids(provider, "crm")) == 11
    check_left(provider)


@BOTH
@pytest.mark.parametrize("takes_others", [True, False])
@pytest.mark.parametrize("wish", ["", "fail"])
def test_a_refused_reply_fails_its_event_and_no_other(
    tmp_path: Path, provider: LentProvider, wish: str, takes_others: bool, in_progress: bool
) -> None:
    """A single message names the destination of a reply, which may take nothing for ever."""
    deployment = deploy_so(tmp_path, in_progress, store={"reply": True})
    sent = send(provider, "", wish, "")
    provider.broker.waiting("customers")[1].message.set_property("of", "its sender")
    ask(provider, 0, "queue://replies")
    ask(provider, 1, "queue://blocked")
    ask(provider, 2, "queue://replies")
    provider.broker.refuses = lambda name, message: (
        name == "blocked" and (message.correlation_id is not None or not takes_others)
    )
    with running(deployment, provider) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert ids(provider, "error") == [sent[1]]
    assert ids(provider, "archive") == [sent[0], sent[2]]
    (error,) = seen(provider, "error")
    assert reason_of(error).startswith("store: ValueError: as you wish" if wish else "the broker refuses")
    assert reason_of(error).count("refuses a message of its settlement: blocked: no right") == 1
    assert error.properties["of"] == "its sender", "the copy is whole"
    assert len(ids(provider, "replies")) == len(ids(provider, "crm")) == 2
    assert len(stored(deployment)) == (2 if wish else 3), "each was called once"
    check_left(provider)


@BOTH
def test_a_refused_reply_that_nobody_was_asked_for_stops_nothing(
    tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    """The reply says that the event was begun too often. The adapter makes it when it settles."""
    deployment = deploy_so(tmp_path, in_progress, store={"reply": True})
    sent = send(provider, "", "")
    (first, _) = provider.broker.waiting("customers")
    first.message.set_property("connector_message_id", sent[0])
    first.message.set_property("connector_begun", 99)
    ask(provider, 0, "queue://blocked")
    provider.broker.refused.add("blocked")
    with running(deployment, provider) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
    (error,) = seen(provider, "error")
    assert "max_attempts" in reason_of(error)
    assert ids(provider, "archive") == [sent[1]]
    check_left(provider)


@BOTH
@pytest.mark.parametrize("how", ["crm is full", "the replies are full", "crm is closed", "no mark is taken"])
def test_what_depends_on_the_moment_fails_no_event(
    tmp_path: Path, provider: LentProvider, how: str, in_progress: bool
) -> None:
    deployment = deploy_so(tmp_path, in_progress, store={"reply": True})
    sent = send(provider, "", "")
    for number in range(2):
        ask(provider, number, "queue://replies")
    if how == "no mark is taken":
        provider.broker.refuses = lambda name, message: name == COMMITS and len(stored(deployment)) == 2
    elif how == "crm is closed":
        provider.broker.refused.add("crm")
    else:
        provider.broker.full.add("crm" if how == "crm is full" else "replies")
    with running(deployment, provider) as adapter:
        wait_for(lambda: adapter.poll().code is ReturnCode.APPRESPONSETIMEOUT)
        for _ in range(8):
            adapter.poll()
        assert ids(provider, "error") == ids(provider, "archive") == ids(provider, "replies") == []
        counts = [one.message.delivery_count for one in provider.broker.queues.get("progress", ())]
        assert all(count <= 2 for count in counts), "one try costs a delivery"
        provider.broker.refuses = lambda name, message: False
        provider.broker.refused.clear()
        provider.broker.full.clear()
        wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED)
    assert ids(provider, "error") == []
    assert sorted(map(str, ids(provider, "archive"))) == sorted(sent)
    assert len(ids(provider, "replies")) == len(ids(provider, "crm")) == 2
    assert stored(deployment) == ["0 1", "1 1"]
    check_left(provider)


@BOTH
def test_an_event_that_has_failed_so_is_no_duplicate_when_it_comes_again(
    tmp_path: Path, provider: LentProvider, in_progress: bool
) -> None:
    deployment = deploy_so(tmp_path, in_progress)
    (sent,) = send(provider, "odd")
    refuse(provider, "crm")
    with running(deployment, provider) as adapter:
        adapter.drain()
        assert ids(provider, "error") == [sent]
        provider.broker.refuses = lambda name, message: False
        mover = Mover(ERROR, MessageChoice(), Replay(ERROR))
        assert carry_out(provider, "lent", mover, yes=True, note=lambda _: None).moved == 1
        assert adapter.drain().code is ReturnCode.SUCCEED
    (archived,) = seen(provider, "archive")
    assert archived.properties["connector_outcome"] == "published"
    assert len(ids(provider, "crm")) == 1
    assert stored(deployment) == ["0 1", "0 1"], "a replay runs it as if it were new"


@BOTH
@pytest.mark.parametrize("refusing", ["crm", "archive"])
def test_an_event_whose_failure_is_refused_too_waits_and_ends_when_it_can(
    tmp_path: Path, provider: LentProvider, refusing: str, in_progress: bool
) -> None:
    provider.broker.limit = 10
    deployment = deploy_so(tmp_path, in_progress)
    sent = send(provider, "odd", "")
    provider.broker.refuses = lambda name, message: name in (refusing, "error") and b"odd" in message.body
    with running(deployment, provider) as adapter:
        for _ in range(5):
            assert adapter.drain().code is ReturnCode.APPRESPONSETIMEOUT
        assert ids(provider, "error") == []
        provider.broker.refuses = lambda name, message: False
        wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED)
    assert sorted(map(str, ids(provider, "archive") + ids(provider, "error"))) == sorted(sent)
    assert stored(deployment) == ["0 1", "1 1"]
    assert "DLQ" not in provider.broker.queues


def test_recovery_fails_the_event_of_a_dead_instance_whose_message_is_refused(
    tmp_path: Path, provider: LentProvider
) -> None:
    deployment = deploy_so(tmp_path, True, DuplicateEventElimination=False)
    sent = send(provider, "", "odd", "")
    provider.broker.is_silent = lambda queue, message: queue == "progress"
    with contextlib.suppress(ProviderError), running(deployment, provider) as adapter:
        adapter.poll()
        for connection in provider.broker.connections:
            connection.close()
    provider.broker.is_silent = lambda queue, message: False
    refuse(provider, "crm")
    with running(deployment, provider) as adapter:
        assert adapter.drain().code is ReturnCode.SUCCEED
        assert adapter.summary.as_dict()["failed"] == 1
    assert ids(provider, "error") == [sent[1]]
    assert sorted(map(str, ids(provider, "archive"))) == sorted([sent[0], sent[2]])
    (error,) = seen(provider, "error")
    assert "the broker refuses a message of its settlement" in reason_of(error)
    assert stored(deployment) == ["0 1", "1 1", "2 1"]
    check_left(provider)


@pytest.mark.parametrize("order", ["none", "group", "destination"])
@pytest.mark.parametrize("position", [0, 7, 11])
def test_a_message_that_the_destination_in_progress_refuses_fails_and_no_other(
    tmp_path: Path, provider: LentProvider, position: int, order: str
) -> None:
    provider.broker.limit = 10
    deployment = deploy_so(tmp_path, True, order=order)
    wishes = [""] * 12
    wishes[position] = "odd"
    sent = send(provider, *wishes)
    others = [one for one in sent if one != sent[position]]
    refuse(provider, "progress")
    with running(deployment, provider) as adapter:
        wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED)
        assert adapter.summary.as_dict()["failed"] == 1
        assert adapter.summary.as_dict()["published"] == 11
        sent += send(provider, "", "")
        assert adapter.drain().code is ReturnCode.SUCCEED
    assert ids(provider, "error") == sent[position : position + 1]
    archived, expected = [str(one) for one in ids(provider, "archive")], [*others, *sent[12:]]
    assert archived == expected if order == "destination" else sorted(archived) == sorted(expected)
    (error,) = seen(provider, "error")
    assert "the InProgressDestination refuses the message: progress: no right" in reason_of(error)
    assert len(stored(deployment)) == 13
    check_left(provider)


def test_a_message_that_nobody_takes_stays_until_somebody_does(
    tmp_path: Path, provider: LentProvider
) -> None:
    provider.broker.limit = 10
    deployment = deploy_so(tmp_path, True)
    sent = send(provider, "", "odd", "")
    provider.broker.refuses = lambda name, message: name in ("progress", "error") and b"odd" in message.body
    with running(deployment, provider) as adapter:
        for _ in range(20):
            assert adapter.drain().code is ReturnCode.APPRESPONSETIMEOUT
        assert ids(provider, "error") == []
        refuse(provider, "progress")
        wait_for(lambda: adapter.drain().code is ReturnCode.SUCCEED)
    assert ids(provider, "error") == [sent[1]]
    assert sorted(map(str, ids(provider, "archive"))) == [sent[0], sent[2]]
    assert stored(deployment) == ["0 1", "2 1"]
    check_left(provider)


# -- below the events ----------------------------------------------------------------------------------------


def claim(provider: LentProvider, *bodies: bytes) -> tuple[RemoteConnection, Any]:
    connection = provider.connect("shop", "one")
    connection.send(ORDERS, [Message(body) for body in bodies])
    return connection, connection.poller(ORDERS, PROGRESS).claim(1, range(len(bodies)))


def refusal(connection: RemoteConnection, settlements: Sequence[Settlement]) -> SettlementOpen | None:
    """Settles, and returns the refusal. None = a destination takes nothing."""
    with pytest.raises(SettlementOpen) as stopped:
        connection.settle(settlements)
    return stopped.value if stopped.value.refused else None


def test_a_refusal_names_its_claims_and_settles_the_others(provider: LentProvider) -> None:
    connection, claims = claim(provider, b"odd", b"even", b"odd", b"late")
    provider.broker.full.add("invalid")
    refuse(provider, "archive")
    settlements = [
        Settlement(one, ARCHIVE if number < 3 else parse_destination("queue://invalid"))
        for number, one in enumerate(claims)
    ]
    for _ in range(3):
        assert refusal(connection, settlements) is None
    provider.broker.full.clear()
    stopped = wait_for(lambda: refusal(connection, settlements))
    assert [one for one, _ in stopped.refused] == [claims[0], claims[2]]
    assert [one.message.body for one in provider.broker.waiting("archive")] == [b"even"]
    settlements[0] = Settlement(claims[0], ERROR)
    settlements[2] = Settlement(claims[2], ERROR)
    connection.settle(settlements)
    assert len(ids(provider, "error")) == 2
    assert len(ids(provider, "archive")) == len(ids(provider, "invalid")) == 1
    connection.close()
    assert ids(provider, "progress") == []


def test_a_message_that_its_input_refuses_waits_in_progress(provider: LentProvider) -> None:
    connection, (taken,) = claim(provider, b"odd")
    refuse(provider, "orders")
    connection.settle([Settlement(taken, give_back=True)])
    (waiting,) = connection.find_unowned(PROGRESS)
    assert waiting.waits
    assert waiting.destination == ORDERS
    assert connection.adopt(waiting, 2, 0) is not None
    connection.close()


def test_a_mark_that_somebody_has_removed_stops_nothing(tmp_path: Path, provider: LentProvider) -> None:
    deployment = deploy_so(tmp_path, True, DuplicateEventElimination=False)
    sent = send(provider, "")
    with running(deployment, provider) as adapter:
        adapter.drain()
        for number in range(1, 3):
            with provider.broker.changed:
                provider.broker.queues[COMMITS].clear()
            sent += send(provider, "")
            assert adapter.drain().code is ReturnCode.SUCCEED, number
    assert ids(provider, "archive") == sent
    assert stored(deployment) == ["0 1"] * 3
    check_left(provider)


def test_an_expired_message_that_its_input_does_not_take_goes_back_later(
    tmp_path: Path, provider: LentProvider
) -> None:
    deployment = deploy_so(tmp_path, True, DuplicateEventElimination=False)
    send(provider, "sleep")
    (asleep,) = provider.broker.waiting("customers")
    with running(deployment, provider) as adapter:
        asleep.message.expiration = now_ms() + 600_000
        adapter.poll()
        (waiting,) = provider.broker.waiting("progress")
        waiting.message.set_property("connector_expiration", now_ms() - 1)
        provider.broker.full.add("customers")
        for _ in range(3):
            assert adapter.poll().provider_failed is False
        assert len(provider.broker.queues["progress"]) == 1
        provider.broker.full.clear()
        adapter.drain()
        assert provider.broker.queues["progress"] == []
    assert stored(deployment) == []
