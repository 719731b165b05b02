"""Sessions of Python programs at a broker: messages that cannot be read, and messages that are refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connector.brokers.engine.client import BrokerMessagingConnection
from connector.brokers.engine.transaction_limits import TransactionLimits
from connector.errors import MalformedData, ProviderError, TransactionRolledBack
from connector.messaging.client import AcknowledgeMode, Session
from tests.brokers.engine.provider import LentProvider

AUTO, DUPS_OK, CLIENT, INDIVIDUAL, TRANSACTED = AcknowledgeMode
QUEUE = "queue://orders"


@pytest.fixture
def connection(provider: LentProvider) -> Iterator[BrokerMessagingConnection]:
    connection = BrokerMessagingConnection(provider)
    yield connection
    connection.close()


def received(session: Session) -> list[str]:
    """What one consumer gets: bodies, and ``?`` for a message that cannot be read."""
    found = []
    with session.consumer(QUEUE) as consumer:
        while True:
            try:
                message = consumer.receive_nowait()
            except (MalformedData, ProviderError):
                found.append("?")
                continue
            if message is None:
                return found
            found.append(message.body.decode())


@pytest.mark.parametrize("kind", ["library", "too large"])
@pytest.mark.parametrize("mode", [AUTO, DUPS_OK, INDIVIDUAL], ids=str)
def test_a_message_that_cannot_be_read_holds_up_no_other_and_stays(
    provider: LentProvider, connection: BrokerMessagingConnection, mode: AcknowledgeMode, kind: str
) -> None:
    if kind == "library":
        provider.broker.unreadable.add(b"bad")
    else:
        provider.limits = TransactionLimits(max_body=5)
    bad = b"bad" if kind == "library" else b"bad bad"
    with BrokerMessagingConnection(provider) as own, own.session(mode) as session:
        connection.session().send_many(QUEUE, [b"1", bad, b"2", b"3"])
        assert received(session) == ["1", "?", "2", "3"]
    provider.broker.unreadable.clear()
    provider.limits = TransactionLimits(max_body=100)
    left = {AUTO: [], DUPS_OK: ["1"], INDIVIDUAL: ["1", "2", "3"]}[mode]  # DUPS_OK: twice, as it may be
    with BrokerMessagingConnection(provider) as own:
        assert sorted(received(own.session())) == sorted([bad.decode(), *left])


@pytest.mark.parametrize("mode", [CLIENT, TRANSACTED], ids=str)
def test_a_message_that_no_library_can_read_is_never_acknowledged_unseen(
    provider: LentProvider, connection: BrokerMessagingConnection, mode: AcknowledgeMode
) -> None:
    provider.broker.unreadable.add(b"bad")
    session = connection.session(mode)
    connection.session().send_many(QUEUE, [b"1", b"bad"])
    consumer = session.consumer(QUEUE)
    first = consumer.receive(60)
    assert first is not None
    with pytest.raises(ProviderError):
        consumer.receive(60)
    with pytest.raises((ProviderError, TransactionRolledBack)):
        session.commit() if mode is TRANSACTED else first.acknowledge()
    session.close()
    provider.broker.unreadable.clear()
    assert received(connection.session()) == ["1", "bad"]


def test_a_refused_message_rolls_its_transaction_back_and_the_next_one_works(
    provider: LentProvider, connection: BrokerMessagingConnection
) -> None:
    provider.broker.refused.add("blocked")
    session = connection.session(TRANSACTED)
    session.send(QUEUE, "1")
    with pytest.raises(ProviderError, match="no right"):
        session.send("queue://blocked", "2")
    with pytest.raises(TransactionRolledBack):
        session.commit()
    session.send(QUEUE, "3")
    session.commit()
    assert received(connection.session()) == ["3"]
