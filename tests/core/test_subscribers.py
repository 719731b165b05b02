"""Topics through sessions: durable, shared and plain subscribers (seeds 002 and 003)."""

from __future__ import annotations

import pytest

from connector.core.connection import MessagingConnection
from connector.errors import SubscriptionError
from connector.messaging import NON_PERSISTENT, AcknowledgeMode
from tests.core.conftest import Connect, Watched, next_of, values

TOPIC = "topic://prices"
AUTO, DUPS_OK, CLIENT, INDIVIDUAL, TRANSACTED = AcknowledgeMode


def publish(connection: MessagingConnection, *bodies: str, **headers: object) -> None:
    with connection.session() as session:
        for body in bodies:
            session.producer(TOPIC).send(body, **headers)  # type: ignore[arg-type]


@pytest.fixture
def billing(connect: Connect) -> MessagingConnection:
    return connect(client_id="billing")


# -- plain subscribers -----------------------------------------------------------------------------


def test_every_plain_subscriber_gets_every_message_that_is_sent_while_it_is_there(
    connection: MessagingConnection,
) -> None:
    publish(connection, "before")
    subscribers = [connection.session().consumer(TOPIC) for _ in range(3)]
    publish(connection, "1", "2")
    assert [values(subscriber) for subscriber in subscribers] == [["1", "2"]] * 3
    for subscriber in subscribers:
        subscriber.close()
    publish(connection, "after")
    assert values(connection.session().consumer(TOPIC)) == []


def test_a_subscriber_without_local_messages_gets_those_of_other_connections_only(connect: Connect) -> None:
    here, there = connect(), connect()
    subscriber = here.session().consumer(TOPIC, no_local=True)
    publish(here, "local")
    publish(there, "foreign")
    assert values(subscriber) == ["foreign"]


def test_what_a_closed_plain_subscriber_has_received_is_committed_with_the_rest(
    connection: MessagingConnection,
) -> None:
    session = connection.session(TRANSACTED)
    with session.consumer(TOPIC) as subscriber:
        publish(connection, "1")
        message = next_of(subscriber)
    session.send("orders", message.value)
    session.commit()
    assert values(connection.session().consumer("orders")) == ["1"]


# -- durable subscribers ---------------------------------------------------------------------------


def test_a_durable_subscription_keeps_messages_while_its_client_is_away(connect: Connect) -> None:
    with connect(client_id="billing") as first:
        first.session().durable_consumer(TOPIC, "audit").close()
        publish(first, "1")
    publish(connect(), "2", delivery_mode=NON_PERSISTENT)
    assert values(connect(client_id="billing").session().durable_consumer(TOPIC, "audit")) == ["1", "2"]


def test_a_durable_subscription_with_a_consumer_or_of_the_other_kind_is_in_the_way(
    billing: MessagingConnection,
) -> None:
    session = billing.session()
    with session.durable_consumer(TOPIC, "audit"), pytest.raises(SubscriptionError, match="has a consumer"):
        billing.session().durable_consumer(TOPIC, "audit")
    with pytest.raises(SubscriptionError, match="exists"):
        session.shared_durable_consumer(TOPIC, "audit")
    shared = session.shared_durable_consumer(TOPIC, "workers")
    with shared, pytest.raises(SubscriptionError, match="close the consumers first"):
        session.shared_durable_consumer(TOPIC, "workers", "price > 3")
    with pytest.raises(SubscriptionError, match="exists"):
        session.durable_consumer(TOPIC, "workers")
    session.durable_consumer(TOPIC, "audit")
    session.shared_durable_consumer(TOPIC, "workers", "price > 3")


def test_other_details_make_an_inactive_durable_subscription_anew(billing: MessagingConnection) -> None:
    billing.session().durable_consumer(TOPIC, "audit").close()
    publish(billing, "lost", properties={"price": 9})
    consumer = billing.session().durable_consumer(TOPIC, "audit", "price > 3")
    publish(billing, "cheap", properties={"price": 1})
    publish(billing, "dear", properties={"price": 9})
    assert values(consumer) == ["dear"]


# -- shared subscribers ----------------------------------------------------------------------------


def test_a_shared_subscription_ends_with_its_last_consumer(connection: MessagingConnection) -> None:
    session = connection.session()
    first, second = (session.shared_consumer(TOPIC, "workers") for _ in range(2))
    first.close()
    publish(connection, "1")
    second.close()
    assert values(session.shared_consumer(TOPIC, "workers")) == []


def test_a_shared_durable_subscription_stays_and_needs_no_client_id(connect: Connect) -> None:
    connect().session().shared_durable_consumer(TOPIC, "workers").close()
    publish(connect(), "1")
    consumer = connect().session().shared_durable_consumer(TOPIC, "workers")
    assert [next_of(consumer).value, *values(consumer)] == ["1"]  # a busy broker shows it a moment later


def test_a_shared_subscription_is_unrelated_to_a_durable_one_of_its_name(
    billing: MessagingConnection,
) -> None:
    session = billing.session()
    durable, shared = session.durable_consumer(TOPIC, "audit"), session.shared_consumer(TOPIC, "audit")
    publish(billing, "1")
    assert values(durable) == values(shared) == ["1"]


# -- unsubscribing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
def test_a_subscription_with_a_consumer_or_an_unacknowledged_message_cannot_be_removed(
    billing: MessagingConnection, mode: AcknowledgeMode
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


# -- acknowledgement and death ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", [CLIENT, INDIVIDUAL, TRANSACTED])
def test_a_durable_subscriber_that_dies_gets_its_message_again_flagged(
    connect: Connect, provider: Watched, mode: AcknowledgeMode
) -> None:
    consumer = connect(client_id="billing").session(mode).durable_consumer(TOPIC, "audit")
    dying = list(provider.connections)
    publish(connect(), "1")
    next_of(consumer)
    provider.kill(dying)
    again = next_of(connect(client_id="billing").session().durable_consumer(TOPIC, "audit"))
    assert (again.value, again.redelivered, again.delivery_count) == ("1", True, 2)
