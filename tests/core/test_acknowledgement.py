"""When a delivered message is gone, in each acknowledge mode (JMS Guaranteed Messaging)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.core.connection import MessagingConnection
from connector.core.session import CoreSession
from connector.errors import ClaimLost, ProviderError, SessionStateError
from connector.messaging import AcknowledgeMode, ReceivedMessage
from connector.stores.dropbox.provider import DropboxProvider
from tests.core.conftest import Connect, Watched
from tests.tables import Table
from tests.waiting import wait_for

AUTO, DUPS_OK, CLIENT, INDIVIDUAL, TRANSACTED = AcknowledgeMode
EXPLICIT = (CLIENT, INDIVIDUAL)


def fill(connection: MessagingConnection, *bodies: str) -> None:
    with connection.session() as session:
        session.send_many("orders", list(bodies))


def rest(connection: MessagingConnection) -> list[tuple[str, int]]:
    """Bodies and delivery counts of what is still there, taken away."""
    with connection.session() as session:
        return [(m.value, m.delivery_count) for m in session.consumer("orders").messages(0)]


def take(session: CoreSession, number: int) -> list[ReceivedMessage]:
    with session.consumer("orders") as consumer:  # an open one may fetch what others shall get
        found = [consumer.receive_nowait() for _ in range(number)]
    return [message for message in found if message is not None]


# -- AUTO ------------------------------------------------------------------------------------------


def test_auto_does_not_deliver_again_after_recover(connection: MessagingConnection) -> None:
    fill(connection, "1")
    session = connection.session(AUTO)
    take(session, 1)
    session.recover()
    assert rest(connection) == []


# -- DUPS_OK ---------------------------------------------------------------------------------------


def test_dups_ok_acknowledges_later_than_receive_returns(connection: MessagingConnection) -> None:
    fill(connection, "1")
    session = connection.session(DUPS_OK)
    take(session, 1)
    assert [m.value for m in session.browser("orders")] == ["1"]


def test_dups_ok_acknowledges_many_at_a_time(connection: MessagingConnection) -> None:
    fill(connection, *map(str, range(100)))
    session = connection.session(DUPS_OK)
    take(session, 100)
    assert 0 < len(list(session.browser("orders"))) < 100


def test_dups_ok_acknowledges_after_a_while_of_waiting(connection: MessagingConnection) -> None:
    fill(connection, "1")
    session = connection.session(DUPS_OK)
    consumer = session.consumer("orders")
    assert consumer.receive(120) is not None
    wait_for(lambda: consumer.receive(timeout=0.1) is None and list(session.browser("orders")) == [])


def test_dups_ok_delivers_again_after_recover(connection: MessagingConnection) -> None:
    fill(connection, "1", "2")
    session = connection.session(DUPS_OK)
    take(session, 1)
    session.recover()
    assert [(m.value, m.redelivered) for m in take(session, 2)] == [("1", True), ("2", False)]


def test_dups_ok_acknowledges_nothing_that_recover_has_given_back(connection: MessagingConnection) -> None:
    fill(connection, "1")
    session = connection.session(DUPS_OK)
    take(session, 1)
    session.recover()
    session.close()
    assert rest(connection) == [("1", 2)]


# -- CLIENT and INDIVIDUAL -------------------------------------------------------------------------


def test_client_acknowledges_all_that_the_session_has_delivered_so_far(
    connection: MessagingConnection,
) -> None:
    fill(connection, "1", "2", "3", "4")
    session = connection.session(CLIENT)
    first, *_ = take(session, 3)
    first.acknowledge()
    session.close()
    assert rest(connection) == [("4", 1)]


def test_client_acknowledges_across_the_consumers_of_the_session(connection: MessagingConnection) -> None:
    with connection.session() as sender:
        sender.send("orders", "1")
        sender.send("bills", "2")
    session = connection.session(CLIENT)
    assert session.consumer("orders").receive_nowait() is not None
    bill = session.consumer("bills").receive_nowait()
    assert bill is not None
    bill.acknowledge()
    session.close()
    assert rest(connection) == []


def test_individual_acknowledges_that_message_only(connection: MessagingConnection) -> None:
    fill(connection, "1", "2", "3")
    session = connection.session(INDIVIDUAL)
    _, second, _ = take(session, 3)
    second.acknowledge()
    session.close()
    assert rest(connection) == [("1", 2), ("3", 2)]


@pytest.mark.parametrize("mode", EXPLICIT)
def test_recover_begins_again_with_the_oldest(connection: MessagingConnection, mode: AcknowledgeMode) -> None:
    fill(connection, "1", "2", "3")
    session = connection.session(mode)
    take(session, 2)
    session.recover()
    assert [(m.value, m.delivery_count) for m in take(session, 3)] == [("1", 2), ("2", 2), ("3", 1)]


@pytest.mark.parametrize("mode", EXPLICIT)
def test_acknowledging_twice_does_nothing_more(
    connection: MessagingConnection, mode: AcknowledgeMode
) -> None:
    fill(connection, "1", "2")
    session = connection.session(mode)
    (first,) = take(session, 1)
    first.acknowledge()
    take(session, 1)
    first.acknowledge()
    session.close()
    assert rest(connection) == [("2", 2)]


@pytest.mark.parametrize("mode", EXPLICIT)
def test_what_recover_has_given_back_cannot_be_acknowledged_any_more(
    connection: MessagingConnection, mode: AcknowledgeMode
) -> None:
    fill(connection, "1")
    session = connection.session(mode)
    (message,) = take(session, 1)
    session.recover()
    with pytest.raises(ClaimLost, match="redelivered"):
        message.acknowledge()
    assert rest(connection) == [("1", 2)]


@pytest.mark.parametrize("mode", EXPLICIT)
def test_a_late_acknowledgement_fails_and_touches_nothing(
    connect: Connect, provider: Watched, mode: AcknowledgeMode
) -> None:
    fill(connect(), "1")
    session = connect().session(mode)
    (message,) = take(session, 1)
    provider.kill_latest()
    neighbour = connect()
    (theirs,) = take(neighbour.session(mode), 1)
    with pytest.raises(ProviderError):
        message.acknowledge()
    theirs.acknowledge()
    assert theirs.delivery_count == 2


# -- when the provider fails -----------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[tuple[MessagingConnection, Callable[[], None], Callable[[], None]]]:
    """A connection whose messages cannot be acknowledged from the one call on, and can from the other."""
    processed = tmp_path / "orders/incoming/processed"

    def obstruct() -> None:
        processed.rename(tmp_path / "elsewhere")
        processed.write_bytes(b"in the way")

    def repair() -> None:
        processed.unlink()
        (tmp_path / "elsewhere").rename(processed)

    with MessagingConnection(DropboxProvider(tmp_path, create=True, durable=False)) as connection:
        yield connection, obstruct, repair


Folder = tuple[MessagingConnection, Callable[[], None], Callable[[], None]]


@pytest.mark.parametrize("mode", EXPLICIT)
def test_an_acknowledgement_that_failed_can_be_tried_again_or_the_message_comes_again(
    folder: Folder, mode: AcknowledgeMode
) -> None:
    connection, obstruct, repair = folder
    fill(connection, "1", "2", "3")
    session = connection.session(mode)
    first, second = take(session, 2)
    obstruct()
    for message in (first, second):
        with pytest.raises(ProviderError):
            message.acknowledge()
    repair()
    first.acknowledge()  # in CLIENT, the second too
    session.close()
    assert rest(connection) == ([("3", 1)] if mode is CLIENT else [("2", 2), ("3", 1)])


def test_auto_delivers_nothing_that_it_cannot_acknowledge(folder: Folder) -> None:
    connection, obstruct, repair = folder
    fill(connection, "1")
    consumer = connection.session(AUTO).consumer("orders")
    obstruct()
    with pytest.raises(ProviderError):
        consumer.receive_nowait()
    repair()
    message = consumer.receive(120)
    assert message is not None
    assert (message.value, message.delivery_count) == ("1", 1)


def test_auto_brings_again_what_a_listener_has_seen_and_nobody_could_acknowledge(folder: Folder) -> None:
    connection, obstruct, repair = folder
    errors: list[Exception] = []
    connection.exception_listener = errors.append
    fill(connection, "1")
    counts: list[int] = []
    again = threading.Event()

    def listener(message: ReceivedMessage) -> None:
        counts.append(message.delivery_count)
        if len(counts) == 1:
            obstruct()
        else:
            again.set()

    session = connection.session(AUTO)
    consumer = session.consumer("orders")
    consumer.listen(listener)
    wait_for(lambda: errors)
    repair()
    assert again.wait(120)
    session.close()
    assert counts[:2] == [1, 2]
    assert isinstance(errors[0], ProviderError)


@pytest.mark.parametrize("mode", [AUTO, DUPS_OK, TRANSACTED])
def test_acknowledge_does_nothing_in_the_other_modes(
    connection: MessagingConnection, mode: AcknowledgeMode
) -> None:
    fill(connection, "1", "2")
    session = connection.session(mode)
    (message,) = take(session, 1)
    there = len(list(session.browser("orders")))
    message.acknowledge()
    assert len(list(session.browser("orders"))) == there


def test_acknowledge_after_close_is_an_error(connection: MessagingConnection) -> None:
    with Table() as table:
        for mode in AcknowledgeMode:
            with table.row(mode):
                fill(connection, "1")
                session = connection.session(mode)
                (message,) = take(session, 1)
                session.close()
                with pytest.raises(SessionStateError, match="closed"):
                    message.acknowledge()
                rest(connection)
