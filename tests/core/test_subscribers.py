"""Topics through sessions: durable, shared and plain subscribers (seeds 002 and 003)."""

from __future__ import annotations

import pytest

from connector.core.connection import CoreConnection
from connector.errors import SubscriptionError
from connector.messaging import AcknowledgeMode
from tests.core.conftest import Connect, next_of, values

TOPIC = "topic://prices"
CLIENT, TRANSACTED = AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED


def publish(connection: CoreConnection, body: str, price: int = 0) -> None:
    with connection.session() as session:
        session.producer(TOPIC).send(body, properties={"price": price})


@pytest.fixture
def billing(connect: Connect) -> CoreConnection:
    return connect(client_id="billing")


def test_each_kind_of_subscriber_gets_its_messages(connect: Connect, billing: CoreConnection) -> None:
    """The provider knows their rules. A shared subscription is unrelated to a durable one of its name."""
    publish(billing, "before")
    session = billing.session()
    subscribers = [
        session.consumer(TOPIC),
        session.consumer(TOPIC, "price > 3"),
        session.consumer(TOPIC, no_local=True),
        session.durable_consumer(TOPIC, "audit", "price > 3"),
        session.durable_consumer(TOPIC, "foreign", no_local=True),
    ]
    sharing = [session.shared_consumer(TOPIC, "audit", "price < 3") for _ in range(2)]
    connect().session().shared_durable_consumer(TOPIC, "workers", "price > 3").close()
    publish(billing, "cheap", 1)
    publish(billing, "dear", 9)
    publish(connect(), "foreign", 2)
    found = [values(subscriber) for subscriber in subscribers]
    everything, dear, foreign = ["cheap", "dear", "foreign"], ["dear"], ["foreign"]
    assert found == [everything, dear, foreign, dear, foreign]
    assert sorted([*values(sharing[0]), *values(sharing[1])]) == ["cheap", "foreign"]
    workers = connect().session().shared_durable_consumer(TOPIC, "workers", "price > 3")
    assert [next_of(workers).value, *values(workers)] == dear  # a busy broker shows it a moment later


def test_what_a_closed_plain_subscriber_has_received_is_committed_with_the_rest(
    connection: CoreConnection,
) -> None:
    session = connection.session(TRANSACTED)
    with session.consumer(TOPIC) as subscriber:
        publish(connection, "1")
        message = next_of(subscriber)
    session.send("orders", message.value)
    session.commit()
    assert values(connection.session().consumer("orders")) == ["1"]


@pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
def test_a_subscription_with_a_consumer_or_an_unacknowledged_message_cannot_be_removed(
    billing: CoreConnection, mode: AcknowledgeMode
) -> None:
    session = billing.session(mode)

    def cannot_be_removed() -> None:
        with pytest.raises(SubscriptionError):
            session.unsubscribe("audit")

    cannot_be_removed()  # nobody has it
    with session.durable_consumer(TOPIC, "audit") as consumer:
        cannot_be_removed()
        publish(billing, "1")
        message = next_of(consumer)
    cannot_be_removed()
    message.acknowledge()
    if mode is TRANSACTED:
        session.commit()
    session.unsubscribe("audit")
