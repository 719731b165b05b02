"""A client that an operator declares dead: others take over, and it does nothing of that late."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from connector.errors import ClaimLost
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.notes import ClientState
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.engine.connection import LocalConnection
from tests.stores.dropbox.steps import at, layout_of, store_of

ORDERS = parse_destination("queue://orders")
NOTES = parse_destination("queue://notes")
ARCHIVE = parse_destination("queue://archive")


@pytest.fixture
def late(provider: DropboxProvider) -> Iterator[LocalConnection]:
    """A client of the same application that goes on after it was declared dead."""
    connection = provider.connect("suite", "late")
    yield connection
    connection.abandon()


def take_over(connection: LocalConnection) -> list[int]:
    """Gives back what dead clients have left; the numbers of their claims."""
    numbers = []
    for leftover in connection.leftovers(None, at_start=False):
        claims = leftover.claims
        numbers.append(len(claims))
        assert leftover.declared_dead
        connection.settle([Settlement(c, give_back=True, delivery_count=1) for c in claims])
        leftover.forget()
    return numbers


def bodies(connection: LocalConnection, destination: Destination) -> list[bytes]:
    return sorted(message.body for message in connection.browse(destination))


def test_only_who_holds_a_lock_can_be_declared_dead(
    provider: DropboxProvider, connection: LocalConnection, late: LocalConnection
) -> None:
    assert [provider.declare_dead(name) for name in ("nobody", "", "../root-id", ".lock")] == [None] * 4
    assert provider.declare_dead(late.client_id) is ClientState.ALIVE
    assert provider.declare_dead(late.client_id) is ClientState.DECLARED_DEAD
    gone = provider.connect("suite", "gone")
    gone.abandon()
    assert provider.declare_dead(gone.client_id) is ClientState.DEAD
    assert {(one.instance, one.state) for one in provider.clients()} == {
        ("a", ClientState.ALIVE),
        ("late", ClientState.DECLARED_DEAD),
        ("gone", ClientState.DEAD),
    }


def test_what_it_claimed_goes_to_others_and_nothing_that_it_does_late_touches_it(
    provider: DropboxProvider, connection: LocalConnection, late: LocalConnection
) -> None:
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    poller = late.poller(ORDERS)
    claims = [claim for n in range(2) if (claim := poller.take(1, n)) is not None]
    prepared = late.access().open().prepare(NOTES, Message(b"sent"), "key")
    provider.declare_dead(late.client_id)
    for sends in ([], [prepared]):
        with pytest.raises(ClaimLost, match="was declared dead by an operator"):
            late.settle([Settlement(claim) for claim in claims], sends)
    assert take_over(connection) == [2]
    with pytest.raises(ClaimLost):
        late.settle([Settlement(claims[0])])
    with pytest.raises(ClaimLost, match="was declared dead by an operator"):
        late.check()
    assert bodies(connection, ORDERS) == [b"1", b"2"]
    assert list(connection.browse(NOTES)) == []


def test_what_it_claims_before_it_finds_out_is_given_back_until_its_process_has_gone(
    provider: DropboxProvider,
    connection: LocalConnection,
    late: LocalConnection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection.send(ORDERS, [Message(b"1")])
    poller = late.poller(ORDERS)
    provider.declare_dead(late.client_id)
    assert take_over(connection) == [0]
    own = store_of(late).context.client
    assert own is not None
    checked = own._checked
    monkeypatch.setattr(time, "monotonic", lambda: checked)  # no time passes for it
    assert poller.take(1, 0) is not None
    monkeypatch.undo()
    assert take_over(connection) == [1]
    assert bodies(connection, ORDERS) == [b"1"]
    late.abandon()
    assert take_over(connection) == [0]
    assert os.listdir(layout_of(connection).clients) == [connection.client_id]


@pytest.mark.parametrize("place", ["settle.record", "settle.committing"])
def test_a_settlement_that_was_under_way_happens_wholly_or_not_at_all(
    provider: DropboxProvider, connection: LocalConnection, late: LocalConnection, place: str
) -> None:
    connection.send(ORDERS, [Message(b"1"), Message(b"2")])
    claims = late.poller(ORDERS).claim(1, range(2))
    prepared = late.access().open().prepare(NOTES, Message(b"sent"), "key")
    committed = place == "settle.committing"

    def declare_dead() -> None:
        assert provider.declare_dead(late.client_id) is ClientState.ALIVE
        assert take_over(connection) == [0 if committed else 2]

    refused = nullcontext() if committed else pytest.raises(ClaimLost, match="declared dead by an operator")
    with at(place, declare_dead), refused:
        late.settle(
            [
                Settlement(claims[0], copy_to=ARCHIVE, sends=[prepared], published="k0"),
                Settlement(claims[1], copy_to=ARCHIVE, published="k1"),
            ]
        )
    late.abandon()
    found = [bodies(connection, one) for one in (ORDERS, ARCHIVE, NOTES)]
    assert found == ([[], [b"1", b"2"], [b"sent"]] if committed else [[b"1", b"2"], [], []])
    window = provider.state("suite").window(connection.client_id, 10)
    assert ("k0" in window, "k1" in window) == (committed, committed)
    assert take_over(connection) == [0]
    for folder in (layout_of(connection).associated, layout_of(connection).committing):
        assert os.listdir(folder) == []


def test_what_it_held_is_free(provider: DropboxProvider, connection: LocalConnection) -> None:
    wanted = TopicSubscription(parse_destination("topic://prices"), "news", "c", durable=True)
    late = provider.connect("", client_id="c")
    late.poller(wanted)
    provider.declare_dead(late.client_id)
    heir = provider.connect("", client_id="c")
    heir.poller(wanted).close()
    heir.unsubscribe("news", "c")
    heir.close()
    late.abandon()
