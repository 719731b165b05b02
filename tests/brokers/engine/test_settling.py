"""The settlement of a broker's transaction: copies, limits, pending commits, marks."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from connector.brokers.engine.broker import CommitUnknown
from connector.brokers.engine.connection import RemoteConnection
from connector.errors import ProviderError, SettlementError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.settlement import Settlement
from tests.brokers.engine.provider import LentProvider

ORDERS = parse_destination("queue://orders")
ARCHIVE = parse_destination("queue://archive")
COMMITS = "connector.shop.commits"


@pytest.fixture
def connection(provider: LentProvider) -> RemoteConnection:
    return provider.connect("shop", "one")


def send(provider: LentProvider, *bodies: str) -> None:
    with contextlib.closing(provider.connect()) as client:
        client.send(ORDERS, [Message(body.encode()) for body in bodies])


def marks(provider: LentProvider) -> list[object]:
    """The marked cycles."""
    return [one.message.properties["connector_cycle"] for one in provider.broker.waiting(COMMITS)]


def test_a_copy_says_what_a_broker_changes_and_does_not_expire(
    provider: LentProvider, connection: RemoteConnection
) -> None:
    far = 1 << 42
    message = Message(b"body", expiration=far)
    (identity,) = connection.send(ORDERS, [message])
    (claim,) = connection.poller(ORDERS).claim(1, range(1))
    connection.settle([Settlement(claim, copy_to=ARCHIVE)])
    (stored,) = provider.broker.waiting("archive")
    assert stored.message.expiration == 0
    assert stored.message.message_id != identity
    assert stored.message.properties == {
        "connector_message_id": identity,
        "connector_timestamp": message.timestamp,
        "connector_expiration": far,
    }
    (seen,) = connection.browse(ARCHIVE)
    assert (seen.message_id, seen.timestamp, seen.properties) == (identity, message.timestamp, {})


@pytest.mark.parametrize(("limits", "taken"), [({"batch": 3}, 3), ({"batch_bytes": 40}, 4)])
def test_a_transaction_holds_as_much_as_it_may(root: Path, limits: dict[str, Any], taken: int) -> None:
    provider = LentProvider(root / "state", **limits)
    send(provider, *["10 bytes.."] * 6)
    connection = provider.connect("shop", "one")
    poller = connection.poller(ORDERS)
    claims = poller.claim(1, range(6))
    assert (len(claims), poller.is_full) == (taken, True)
    assert poller.claim(1, range(taken, 6)) == []
    connection.settle([Settlement(claim) for claim in claims])
    assert not poller.is_full
    assert len(poller.claim(2, range(6))) == 6 - taken
    connection.close()


def test_each_commit_is_marked_and_consumes_the_mark_before(
    provider: LentProvider, connection: RemoteConnection
) -> None:
    send(provider, *"012")
    poller = connection.poller(ORDERS)
    for cycle in (4, 5, 6):
        (claim,) = poller.claim(cycle, range(1))
        connection.settle([Settlement(claim, give_back=cycle == 5)])
        assert marks(provider) == [4 if cycle == 5 else cycle]
    assert connection.committed_cycles(connection.client_id) == {6}
    connection.close()
    assert marks(provider) == []


@pytest.mark.parametrize("is_paused_first", [True, False])
def test_a_session_that_ends_keeps_its_mark_until_the_journal_of_its_events_is_gone(
    provider: LentProvider, connection: RemoteConnection, is_paused_first: bool
) -> None:
    send(provider, "0")
    poller = connection.poller(ORDERS)
    (claim,) = poller.claim(4, range(1))
    connection.note_journal(4)
    if is_paused_first:
        poller.close()
    connection.settle([Settlement(claim)])
    if not is_paused_first:
        poller.close()
    for journals, left in (({3}, [4]), ({4}, [])):
        connection.forget(journals)
        assert marks(provider) == left
    connection.close()


def test_commits_are_not_marked_without_a_commit_queue(root: Path) -> None:
    provider = LentProvider(root / "state", commit_queue=None)
    send(provider, "0")
    connection = provider.connect("shop", "one")
    (claim,) = connection.poller(ORDERS).claim(1, range(1))
    connection.settle([Settlement(claim)])
    assert not connection.marks_commits
    assert connection.committed_cycles(connection.client_id) == set()
    assert COMMITS not in provider.broker.queues
    connection.close()


@pytest.mark.parametrize("answer", ["done", "undone", "late"])
def test_a_key_counts_once_its_commit_is_known(
    provider: LentProvider, connection: RemoteConnection, answer: str
) -> None:
    send(provider, "0")
    state = provider.state("shop")
    (claim,) = connection.poller(ORDERS).claim(3, range(1))
    provider.broker.lost_answers.append(answer)
    with pytest.raises(CommitUnknown):
        connection.settle([Settlement(claim, published="key")])
    connection.abandon()
    pending = (connection.client_id, 3)
    assert state.pending() == [pending]
    window = state.window("other", 100)
    assert "key" not in window
    assert window.reserve(["key"]) == {"key"}, "it is neither run nor a duplicate"
    other = provider.connect("shop", "two")
    assert other.committed_cycles(connection.client_id) == ({3} if answer == "done" else set())
    if answer == "done":
        state.confirm(*pending)
    else:
        state.drop(*pending)
    assert not state.hold_pending(connection.client_id)
    assert window.reserve(["key"]) == set()
    assert ("key" in window) is (answer == "done")
    other.close()


@pytest.mark.parametrize("in_progress", [None, parse_destination("queue://in-progress")])
def test_a_body_that_was_not_read_is_copied_whole(root: Path, in_progress: Destination | None) -> None:
    provider = LentProvider(root / "state", max_body=10)
    send(provider, "small", "larger than ten bytes")
    connection = provider.connect("shop", "one")
    poller = connection.poller(ORDERS, in_progress)
    claims = poller.claim(1, range(2))
    assert [(one.reference.size, one.reference.message.body) for one in claims] == [(5, b"small"), (21, b"")]
    connection.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims])
    bodies = [one.message.body for one in provider.broker.waiting("archive")]
    assert bodies == [b"small", b"larger than ten bytes"]
    connection.close()


def test_a_message_that_the_library_cannot_read_is_never_settled_and_holds_up_no_other(
    provider: LentProvider, connection: RemoteConnection, caplog: pytest.LogCaptureFixture
) -> None:
    send(provider, "0", "1", "bad", "3", "bad", "bad", "4")
    provider.broker.unreadable.add(b"bad")
    poller = connection.poller(ORDERS)
    assert drained(connection, poller) == [b"0", b"1", b"3", b"4"]
    send(provider, "5")
    assert drained(connection, poller) == [b"5"]
    assert caplog.text.count("a message that cannot be read stays in its queue") == 3
    connection.close()
    assert [one.message.body for one in provider.broker.waiting("orders")] == [b"bad"] * 3
    provider.broker.unreadable.clear()
    other = provider.connect("shop", "one")
    assert drained(other, other.poller(ORDERS)) == [b"bad"] * 3


def test_a_transaction_in_which_a_receive_has_failed_is_rolled_back(
    provider: LentProvider, connection: RemoteConnection
) -> None:
    send(provider, "0", "bad")
    poller = connection.poller(ORDERS)
    (claim,) = poller.claim(1, range(1))
    provider.broker.unreadable.add(b"bad")
    assert (poller.claim(1, range(1, 2)), poller.is_full) == ([], True)
    with pytest.raises(SettlementError, match="cannot read"):
        connection.settle([Settlement(claim)])
    assert [one.message.body for one in provider.broker.waiting("orders")] == [b"0", b"bad"]
    assert not poller.is_full


def test_a_waiting_receive_that_fails_leaves_the_message_in_its_queue(
    provider: LentProvider, connection: RemoteConnection
) -> None:
    provider.broker.unreadable.add(b"bad")
    poller = connection.poller(ORDERS)
    waiter = connection.waiter()
    waiter.begin()
    send(provider, "bad", "1")
    assert waiter.wait(120)
    assert drained(connection, poller) == [b"1"]
    connection.close()
    assert [one.message.body for one in provider.broker.waiting("orders")] == [b"bad"]


def test_a_wait_on_a_failed_connection_ends_and_the_next_claim_says_why(connection: RemoteConnection) -> None:
    poller = connection.poller(ORDERS)
    connection.broker.close()
    assert connection.waiter().wait(120)
    with pytest.raises(ProviderError, match="ended"):
        poller.claim(1, range(1))


def drained(connection: RemoteConnection, poller: Poller) -> list[bytes]:
    """Settles what can be claimed in some cycles. Returns the bodies."""
    bodies: list[bytes] = []
    for cycle in range(100, 110):
        if claims := poller.claim(cycle, range(10)):
            bodies += [claim.reference.message.body for claim in claims]
            connection.settle([Settlement(claim) for claim in claims])
    return bodies
