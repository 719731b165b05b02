"""When a delivered message is gone, in each acknowledge mode (JMS Guaranteed Messaging)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from connector.core.connection import CoreConnection
from connector.core.session import CoreSession
from connector.errors import ClaimLost, ProviderError, SessionStateError
from connector.messaging import AcknowledgeMode, ReceivedMessage
from tests.core.conftest import Connect, Obstacle, Watched, fill, next_of, rest, shown
from tests.waiting import wait_for

AUTO, DUPS_OK, CLIENT, INDIVIDUAL, TRANSACTED = AcknowledgeMode
EXPLICIT = pytest.mark.parametrize("mode", [CLIENT, INDIVIDUAL])


def take(session: CoreSession, number: int) -> list[ReceivedMessage]:
    with session.consumer("orders") as consumer:  # an open one may fetch what others shall get
        found = [consumer.receive_nowait() for _ in range(number)]
    return [message for message in found if message is not None]


# -- AUTO and DUPS_OK ------------------------------------------------------------------------------


def test_dups_ok_acknowledges_later_than_receive_returns(connection: CoreConnection) -> None:
    """Many at a time."""
    fill(connection, *map(str, range(100)))
    session = connection.session(DUPS_OK)
    take(session, 1)
    assert len(shown(connection)) == 100
    take(session, 99)
    assert 0 < len(shown(connection)) < 100


def test_dups_ok_acknowledges_after_a_while_of_waiting(connection: CoreConnection) -> None:
    fill(connection, "1")
    session = connection.session(DUPS_OK)
    consumer = session.consumer("orders")
    next_of(consumer)
    wait_for(lambda: consumer.receive(timeout=0.1) is None and shown(connection) == [])


def test_dups_ok_delivers_again_after_recover_and_does_not_acknowledge_what_came_first(
    connection: CoreConnection,
) -> None:
    fill(connection, "1", "2")
    session = connection.session(DUPS_OK)
    take(session, 1)
    session.recover()
    assert [(m.value, m.redelivered) for m in take(session, 2)] == [("1", True), ("2", False)]
    session.recover()
    session.close()
    assert rest(connection) == [("1", 3), ("2", 2)]


# -- CLIENT and INDIVIDUAL -------------------------------------------------------------------------


@EXPLICIT
def test_an_acknowledgement_is_of_one_message_or_of_all_that_the_session_has_delivered_so_far(
    connection: CoreConnection, mode: AcknowledgeMode
) -> None:
    """Across its consumers, too. Once more, it does nothing."""
    fill(connection, "1", "2", "3")
    fill(connection, "bill", to="bills")
    session = connection.session(mode)
    next_of(session.consumer("bills"))
    _, second, *_ = take(session, 2 if mode is CLIENT else 3)
    second.acknowledge()
    if mode is CLIENT:
        take(session, 1)
    second.acknowledge()
    session.close()
    with pytest.raises(SessionStateError, match="closed"):
        second.acknowledge()
    assert rest(connection) == [*([] if mode is CLIENT else [("1", 2)]), ("3", 2)]
    assert shown(connection, "bills") == ([] if mode is CLIENT else ["bill"])


@EXPLICIT
def test_recover_begins_again_with_the_oldest(connection: CoreConnection, mode: AcknowledgeMode) -> None:
    """What it has given back cannot be acknowledged any more."""
    fill(connection, "1", "2", "3")
    session = connection.session(mode)
    first, _ = take(session, 2)
    session.recover()
    with pytest.raises(ClaimLost, match="redelivered"):
        first.acknowledge()
    assert [(m.value, m.delivery_count) for m in take(session, 3)] == [("1", 2), ("2", 2), ("3", 1)]


@EXPLICIT
def test_a_late_acknowledgement_fails_and_touches_nothing(
    connect: Connect, provider: Watched, mode: AcknowledgeMode
) -> None:
    fill(connect(), "1")
    (message,) = take(connect().session(mode), 1)
    provider.kill_latest()
    (theirs,) = take(connect().session(mode), 1)
    with pytest.raises(ProviderError):
        message.acknowledge()
    theirs.acknowledge()
    assert theirs.delivery_count == 2


# -- when the provider fails -----------------------------------------------------------------------


@pytest.fixture
def processed(tmp_path: Path) -> Obstacle:
    """In the way of every acknowledgement, while it is put there."""
    return Obstacle(tmp_path / "orders/incoming/processed")


@EXPLICIT
def test_an_acknowledgement_that_failed_can_be_tried_again_or_the_message_comes_again(
    on_disk: CoreConnection, processed: Obstacle, mode: AcknowledgeMode
) -> None:
    fill(on_disk, "1", "2", "3")
    session = on_disk.session(mode)
    first, second = take(session, 2)
    processed.put()
    for message in (first, second):
        with pytest.raises(ProviderError):
            message.acknowledge()
    processed.remove()
    first.acknowledge()  # in CLIENT, the second too
    session.close()
    assert rest(on_disk) == ([("3", 1)] if mode is CLIENT else [("2", 2), ("3", 1)])


def test_auto_delivers_nothing_that_it_cannot_acknowledge(
    on_disk: CoreConnection, processed: Obstacle
) -> None:
    fill(on_disk, "1")
    consumer = on_disk.session(AUTO).consumer("orders")
    processed.put()
    with pytest.raises(ProviderError):
        consumer.receive_nowait()
    processed.remove()
    message = next_of(consumer)
    assert (message.value, message.delivery_count) == ("1", 1)


def test_auto_brings_again_what_a_listener_has_seen_and_nobody_could_acknowledge(
    on_disk: CoreConnection, processed: Obstacle
) -> None:
    errors: list[Exception] = []
    on_disk.exception_listener = errors.append
    fill(on_disk, "1")
    counts: list[int] = []
    again = threading.Event()

    def listener(message: ReceivedMessage) -> None:
        counts.append(message.delivery_count)
        processed.put() if len(counts) == 1 else again.set()

    session = on_disk.session(AUTO)
    session.consumer("orders").listen(listener)
    wait_for(lambda: errors)
    processed.remove()
    assert again.wait(120)
    session.close()
    assert counts[:2] == [1, 2]
    assert isinstance(errors[0], ProviderError)
