"""The transacted session (seed 002): receives and sends stand or fall together."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.core.session import TransactedSession
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider import Settlement
from connector.providers.dropbox.connection import DropboxConnection, DropboxProvider

ORDERS = Destination("queue", "orders")
BILLS = Destination("queue", "bills")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[DropboxConnection]:
    connection = DropboxProvider(tmp_path / "root").connect()
    yield connection
    connection.close()


def bodies(connection: DropboxConnection, destination: Destination) -> list[bytes]:
    return [message.body for message in connection.browse(destination)]


def test_what_is_sent_is_seen_by_nobody_before_the_commit(connection: DropboxConnection) -> None:
    session = TransactedSession(connection)
    session.send(ORDERS, Message(body=b"1"))
    assert bodies(connection, ORDERS) == []
    session.commit()
    assert bodies(connection, ORDERS) == [b"1"]


def test_the_id_that_send_returns_is_the_id_that_arrives(connection: DropboxConnection) -> None:
    session = TransactedSession(connection)
    identity = session.send(ORDERS, Message(body=b"1"))
    session.commit()
    received = session.receive(ORDERS)
    assert received is not None
    assert received.message_id == identity


def test_messages_of_one_transaction_arrive_in_the_order_of_sending(connection: DropboxConnection) -> None:
    with TransactedSession(connection) as session:
        for number in range(20):
            session.send(ORDERS, Message(body=b"%d" % number))
    with TransactedSession(connection) as session:
        received = [session.receive(ORDERS) for _ in range(20)]
    assert [message.body for message in received if message] == [b"%d" % number for number in range(20)]


def test_rollback_brings_received_messages_again_flagged_and_drops_sent_ones(
    connection: DropboxConnection,
) -> None:
    connection.send(ORDERS, [Message(body=b"1")])
    session = TransactedSession(connection)
    first = session.receive(ORDERS)
    session.send(BILLS, Message(body=b"bill"))
    session.rollback()
    assert first is not None
    assert not first.redelivered
    assert bodies(connection, BILLS) == []
    again = session.receive(ORDERS)
    assert again is not None
    assert (again.body, again.redelivered, again.delivery_count) == (b"1", True, 2)


def test_relay_is_one_commit(connection: DropboxConnection) -> None:
    connection.send(ORDERS, [Message(body=b"1")])
    with TransactedSession(connection) as session:
        message = session.receive(ORDERS)
        assert message is not None
        session.send(BILLS, Message(body=message.body + b" paid"))
    assert bodies(connection, ORDERS) == []
    assert bodies(connection, BILLS) == [b"1 paid"]


def test_an_exception_rolls_back(connection: DropboxConnection) -> None:
    connection.send(ORDERS, [Message(body=b"1")])

    def fails() -> None:
        with TransactedSession(connection) as session:
            session.receive(ORDERS)
            session.send(BILLS, Message(body=b"bill"))
            raise KeyError("x")

    with pytest.raises(KeyError):
        fails()
    assert bodies(connection, ORDERS) == [b"1"]
    assert bodies(connection, BILLS) == []


def test_an_empty_queue_gives_none_at_once(connection: DropboxConnection) -> None:
    assert TransactedSession(connection).receive(ORDERS) is None


def test_a_closed_session_is_an_error(connection: DropboxConnection) -> None:
    session = TransactedSession(connection)
    session.close()
    session.close()
    with pytest.raises(ProviderError, match="closed"):
        session.receive(ORDERS)


@pytest.mark.parametrize("place", ["settle.record", "settle.committing", "settle.move:2"])
def test_a_killed_commit_happens_whole_or_not_at_all(tmp_path: Path, place: str) -> None:
    root = tmp_path / "root"
    sender = DropboxProvider(root).connect()
    sender.send(ORDERS, [Message(body=b"1")])
    program = textwrap.dedent(
        """
        import sys
        from connector.core.session import TransactedSession
        from connector.messaging.destination import Destination
        from connector.messaging.message import Message
        from connector.providers.dropbox.connection import DropboxProvider

        session = TransactedSession(DropboxProvider(sys.argv[1]).connect())
        assert session.receive(Destination("queue", "orders")) is not None
        session.send(Destination("queue", "bills"), Message(body=b"bill"))
        session.commit()
        """
    )
    killed = subprocess.run(
        [sys.executable, "-c", program, str(root)],
        env={"CONNECTOR_FAULT": f"{place}=kill", "PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    assert killed.returncode == -9
    for leftover in sender.leftovers(None, at_start=True):
        sender.settle(
            [
                Settlement(claim, give_back=True, delivery_count=claim.delivery_count + 1)
                for claim in leftover.claims
            ]
        )
        leftover.forget()
    committed = place != "settle.record"
    DropboxProvider(root).layout.ensure(BILLS)
    assert bodies(sender, ORDERS) == ([] if committed else [b"1"])
    assert bodies(sender, BILLS) == ([b"bill"] if committed else [])
    sender.close()
