"""What is delivered too often is put aside, and an operator decides about it (DropboxMQ)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.core.connection import MessagingConnection
from connector.core.session import CoreSession
from connector.messaging import AcknowledgeMode
from connector.messaging.provider import Provider
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider
from tests.core.conftest import fill, next_of

CLIENT, TRANSACTED = AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED
TOPIC = "topic://prices"


@pytest.fixture(params=["dropbox", "memory"])
def connection(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MessagingConnection]:
    """To a provider that delivers a message twice at most."""
    provider: Provider = MemoryProvider(redelivery_limit=2)
    if request.param == "dropbox":
        provider = DropboxProvider(tmp_path, create=True, durable=False, redelivery_limit=2)
    with MessagingConnection(provider, client_id="billing") as connection:
        yield connection


def begin_and_undo(session: CoreSession, source: str, name: str = "") -> list[tuple[str, int]]:
    """What is delivered and not acknowledged, until nothing comes any more."""
    found = []
    with session.durable_consumer(source, name) if name else session.consumer(source) as consumer:
        while (message := consumer.receive_nowait()) is not None:
            found.append((str(message.value), message.delivery_count))
            session.rollback() if session.mode is TRANSACTED else session.recover()
    return found


@pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
def test_a_message_that_is_never_acknowledged_is_put_aside(
    connection: MessagingConnection, mode: AcknowledgeMode
) -> None:
    with connection.session(mode) as session:
        fill(connection, "bad")
        assert begin_and_undo(session, "orders") == [("bad", 1), ("bad", 2)]
        fill(connection, "good")
        assert next_of(session.consumer("orders")).value == "good"


@pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
def test_a_message_that_one_subscription_puts_aside_stays_in_the_others(
    connection: MessagingConnection, mode: AcknowledgeMode
) -> None:
    with connection.session(mode) as session, connection.session() as other:
        for name in ("failing", "working"):
            session.durable_consumer(TOPIC, name).close()
        other.send(TOPIC, "1")
        assert begin_and_undo(session, TOPIC, "failing") == [("1", 1), ("1", 2)]
        assert begin_and_undo(session, TOPIC, "failing") == []
        message = next_of(other.durable_consumer(TOPIC, "working"))
        assert (message.value, message.delivery_count) == ("1", 1)


def test_what_was_put_aside_is_sent_anew_by_receiving_it_from_there(connection: MessagingConnection) -> None:
    with connection.session(CLIENT) as session, connection.session() as operator:
        operator.send("orders", "bad")
        begin_and_undo(session, "orders")
        assert [message.value for message in operator.browser("orders~RECOVER-ERROR")] == ["bad"]
        next_of(operator.consumer("orders~RECOVER-ERROR"))
        assert begin_and_undo(session, "orders") == [("bad", 1), ("bad", 2)], "its deliveries count anew"
        next_of(operator.consumer("orders~REJECT-ERROR"))
        assert begin_and_undo(session, "orders") == []
        assert list(operator.browser("orders~RECOVER-ERROR")) == []
