"""Transacted sessions (JMS Guaranteed Messaging; JBoss Messaging Core, 5.1.3)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.core.connection import CoreConnection
from connector.core.session import CoreSession
from connector.errors import CapabilityError, SettlementError, TransactionRolledBack
from connector.messaging import PERSISTENT, AcknowledgeMode, Message
from connector.stores.dropbox.provider import DropboxProvider
from connector.stores.memory.provider import MemoryProvider
from tests.core.conftest import Obstacle, fill, shown, values
from tests.waiting import now_ms, until_past

TRANSACTED = AcknowledgeMode.TRANSACTED


def relay(session: CoreSession) -> None:
    """Takes an order and sends a bill, in the open transaction."""
    assert session.consumer("orders").receive_nowait() is not None
    session.send("bills", "bill")


@pytest.fixture
def session(connection: CoreConnection) -> Iterator[CoreSession]:
    with connection.session(TRANSACTED) as session:
        yield session
        session.rollback()


def test_messages_of_one_transaction_arrive_in_the_order_of_sending_with_the_ids_that_send_returned(
    session: CoreSession,
) -> None:
    bodies = [str(number) for number in range(20)]
    ids = [session.send("orders", bodies[0]), *session.send_many("orders", bodies[1:])]
    session.commit()
    messages = session.consumer("orders").messages(0)
    assert [(m.message_id, m.value) for m in messages] == list(zip(ids, bodies, strict=True))


def test_a_block_is_one_commit_and_an_exception_rolls_it_back(connection: CoreConnection) -> None:
    def relay_and(*errors: Exception) -> None:
        with connection.session(TRANSACTED) as session:
            relay(session)
            for error in errors:
                raise error

    fill(connection, "1")
    with pytest.raises(KeyError):
        relay_and(KeyError("x"))
    assert (shown(connection), shown(connection, "bills")) == (["1"], [])
    relay_and()
    assert (shown(connection), shown(connection, "bills")) == ([], ["bill"])


def test_a_commit_of_what_somebody_has_taken_over_becomes_a_rollback(
    on_disk: CoreConnection, tmp_path: Path
) -> None:
    fill(on_disk, "1", "2")
    session = on_disk.session(TRANSACTED)
    assert len(values(session.consumer("orders"))) == 2
    session.send("bills", "bill")
    incoming = tmp_path / "orders" / "incoming"
    min((incoming / "processing").iterdir()).rename(incoming / "target" / "taken")
    with pytest.raises(TransactionRolledBack, match="not this client's any more"):
        session.commit()
    assert (len(shown(on_disk)), shown(on_disk, "bills")) == (2, [])


Late = tuple[CoreConnection, CoreSession, CoreConnection]


@pytest.fixture
def late(tmp_path: Path) -> Iterator[Late]:
    """A client whose transaction is open, the transaction, and a client that has taken it over meanwhile.

    The second goes by a shorter lease than the first, so that it takes the first for dead although it lives.
    """
    slow = CoreConnection(DropboxProvider(tmp_path, create=True, durable=False, lease=60.0))
    fill(slow, "1", "2")
    session = slow.session(TRANSACTED)
    assert values(session.consumer("orders")) == ["1", "2"]
    session.send_many("bills", ["a", "b"])
    for client in (tmp_path / "dropboxmq" / "clients").iterdir():
        os.utime(client, (0.0, 0.0))
    with CoreConnection(DropboxProvider(tmp_path, create=True, durable=False, lease=0.2)) as other:
        yield slow, session, other


@pytest.mark.parametrize("end", ["commit", "commit too late to send", "rollback", "close"])
def test_a_transaction_of_a_client_that_was_taken_for_dead_is_rolled_back_however_it_ends(
    late: Late, tmp_path: Path, end: str
) -> None:
    slow, session, other = late
    if end == "commit":
        with pytest.raises(TransactionRolledBack, match=r"taken for dead.*connect anew"):
            session.commit()
    elif end == "commit too late to send":
        session.producer("bills", time_to_live=1).send("c")
        until_past(now_ms() + 1)
        with pytest.raises(TransactionRolledBack, match="expired"):
            session.commit()
    elif end == "rollback":
        session.rollback()
    slow.close()
    assert (shown(other), shown(other, "bills")) == (["1", "2"], [])
    assert list((tmp_path / "bills/incoming/working").iterdir()) == []


def test_a_commit_that_was_not_possible_yet_can_be_tried_again(
    on_disk: CoreConnection, tmp_path: Path
) -> None:
    fill(on_disk, "1")
    session = on_disk.session(TRANSACTED)
    relay(session)
    committing = Obstacle(tmp_path / "dropboxmq" / "transaction" / "committing")
    committing.put()
    with pytest.raises(SettlementError):
        session.commit()
    committing.remove()
    session.commit()
    assert (shown(on_disk), shown(on_disk, "bills")) == ([], ["bill"])


def test_all_or_none_of_many_are_in_the_transaction() -> None:
    with CoreConnection(MemoryProvider()) as connection:
        session = connection.session(TRANSACTED)
        with pytest.raises(CapabilityError):
            session.send_many("orders", ["1", Message(b"2", delivery_mode=PERSISTENT)])
        session.commit()
        assert shown(connection) == []
