"""What a broker makes of a settlement, beyond what the shipped suite can ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from connector.errors import ClaimLost, ProviderError, SettlementError
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message
from connector.messaging.settlement import Settlement
from tests.providers.lent.broker import BrokerSession
from tests.providers.lent.provider import LentConnection, LentProvider

ORDERS = parse_destination("queue://orders")
ARCHIVE = parse_destination("queue://archive")


@pytest.fixture
def provider(root: Path) -> LentProvider:
    return LentProvider(root / "state")


@pytest.fixture
def connection(provider: LentProvider) -> LentConnection:
    connection = provider.connect("suite", "one")
    connection.send(ORDERS, [Message(str(number).encode()) for number in range(4)])
    return connection


def bodies(connection: LentConnection, queue: Destination) -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


def counted(provider: LentProvider) -> list[int]:
    """The broker's own numbers of deliveries of what waits."""
    return [stored.message.delivery_count for stored in provider.broker.waiting("orders")]


def test_a_settlement_of_all_claims_of_a_cycle_counts_nothing(
    connection: LentConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(session: BrokerSession, *arguments: object) -> None:
        pytest.fail("a message is received again")

    claims = connection.poller(ORDERS).claim(1, range(4))
    monkeypatch.setattr(BrokerSession, "receive", refuse)
    connection.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims])
    assert bodies(connection, ARCHIVE) == [b"0", b"1", b"2", b"3"]


def test_the_broker_counts_a_message_that_was_received_again_and_the_claim_does_not(
    provider: LentProvider, connection: LentConnection
) -> None:
    claims = connection.poller(ORDERS).claim(1, range(4))
    connection.settle([Settlement(claims[0])])
    connection.settle([Settlement(claim, give_back=True) for claim in claims[1:]])
    assert counted(provider) == [3, 3, 3]
    again = connection.poller(ORDERS).claim(2, range(4))
    assert [claim.delivery_count for claim in again] == [0, 0, 0]


def test_a_message_that_a_neighbour_receives_in_between_is_lost_and_the_others_are_settled(
    provider: LentProvider, connection: LentConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = connection.poller(ORDERS).claim(1, range(4))
    neighbour = provider.broker.connect().session()
    roll_back = BrokerSession.rollback

    def be_quick(session: BrokerSession) -> None:
        roll_back(session)
        neighbour.receive("orders", 1, "JMSXDeliveryCount = 2")

    monkeypatch.setattr(BrokerSession, "rollback", be_quick)
    with pytest.raises(ClaimLost):
        connection.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims[:2]], fenced=True)
    monkeypatch.undo()
    connection.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims])
    assert bodies(connection, ARCHIVE) == [b"1", b"2", b"3"]
    assert bodies(connection, ORDERS) == []


def test_a_connection_that_broke_settles_nothing_and_all_comes_again(
    provider: LentProvider, connection: LentConnection
) -> None:
    claims = connection.poller(ORDERS).claim(1, range(4))
    provider.broker.connections[0].close()
    with pytest.raises(SettlementError):
        connection.settle([Settlement(claim) for claim in claims])
    with pytest.raises(ProviderError):
        connection.check()
    other = provider.connect("suite", "two")
    assert list(other.leftovers(None, at_start=True)) == []
    assert [claim.delivery_count for claim in other.poller(ORDERS).claim(1, range(9))] == [1, 1, 1, 1]


def test_a_commit_without_an_answer_is_an_error_of_the_provider(
    provider: LentProvider, connection: LentConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = connection.poller(ORDERS).claim(1, range(4))
    commit = BrokerSession.commit

    def commit_unheard(session: BrokerSession) -> None:
        commit(session)
        provider.broker.connections[0].close()
        session.commit()

    monkeypatch.setattr(BrokerSession, "commit", commit_unheard)
    with pytest.raises(ProviderError, match="nobody knows") as refused:
        connection.settle([Settlement(claim, copy_to=ARCHIVE) for claim in claims])
    assert not isinstance(refused.value, SettlementError | ClaimLost)
    monkeypatch.undo()
    other = provider.connect("suite", "two")
    assert (bodies(other, ORDERS), len(bodies(other, ARCHIVE))) == ([], 4)
