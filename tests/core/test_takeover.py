"""What dead processes leave: real ones, ended by SIGKILL."""

from __future__ import annotations

import os
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.core import takeover
from connector.core.connection import MessagingConnection
from connector.errors import ClaimLost
from connector.messaging import AcknowledgeMode, Message, ReceivedMessage, connect
from connector.messaging.destination import parse_destination
from connector.stores.dropbox.provider import DropboxProvider
from tests.forked_command import PipedProcess
from tests.waiting import wait_for, waits_in

_PROGRAM = """
import sys
from connector.messaging import AcknowledgeMode, connect

connection = connect("dropbox:" + sys.argv[1] + "?create=true", durability="none")
session = connection.session(AcknowledgeMode[sys.argv[2]])
consumer = session.consumer("orders")
"""

ORDERS = parse_destination("orders")
Start = Callable[..., PipedProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process with a session and waits until it says that it is ready; ended after the test."""
    started: list[PipedProcess] = []

    def start(mode: AcknowledgeMode, program: str) -> PipedProcess:
        process = PipedProcess(tmp_path, mode.name, script=_PROGRAM + textwrap.dedent(program))
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.end()


def fill(root: Path, number: int) -> None:
    with (
        connect(f"dropbox:{root}?create=true", durability="none") as connection,
        connection.session() as session,
    ):
        session.send_many("orders", [str(one) for one in range(number)])


TAKE_TWO = """
consumer.receive_nowait(), consumer.receive_nowait()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_what_killed_sessions_had_not_acknowledged_comes_again_flagged_and_counted(
    tmp_path: Path, start: Start
) -> None:
    fill(tmp_path, 3)
    for mode in (AcknowledgeMode.CLIENT, AcknowledgeMode.DUPS_OK, AcknowledgeMode.TRANSACTED):
        start(mode, TAKE_TWO).end()
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        messages = list(connection.session().consumer("orders").messages(0))
    assert [(m.value, m.delivery_count, m.redelivered) for m in messages] == [
        ("0", 4, True),
        ("1", 4, True),
        ("2", 1, False),
    ]


@pytest.mark.process
def test_a_session_that_waits_takes_over_from_a_process_that_dies_meanwhile_and_not_before(
    tmp_path: Path, start: Start
) -> None:
    fill(tmp_path, 3)
    dying = start(AcknowledgeMode.CLIENT, TAKE_TWO)
    with MessagingConnection(DropboxProvider(tmp_path, create=True), takeover_interval=0.0) as connection:
        consumer = connection.session().consumer("orders")
        living = consumer.receive(120)
        assert living is not None
        assert (living.value, consumer.receive_nowait()) == ("2", None)
        received: list[ReceivedMessage | None] = []
        waiting = threading.Thread(target=lambda: received.append(consumer.receive(120)))
        waiting.start()
        wait_for(lambda: waits_in("receive"))
        dying.end()
        waiting.join()
    (message,) = received
    assert message is not None
    assert message.delivery_count == 2


@pytest.mark.process
def test_what_a_killed_transaction_has_sent_is_never_seen(tmp_path: Path, start: Start) -> None:
    program = """
    session.send_many("bills", ["1", "2"])
    print("ready", flush=True)
    sys.stdin.read()
    """
    start(AcknowledgeMode.TRANSACTED, program).end()
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        session = connection.session()
        assert session.consumer("bills").receive_nowait() is None
    assert list((tmp_path / "bills/incoming/working").iterdir()) == []


@pytest.mark.process
def test_the_client_id_and_subscription_of_a_killed_process_are_free(tmp_path: Path, start: Start) -> None:
    program = """
    named = connect("dropbox:" + sys.argv[1], client_id="billing").session(AcknowledgeMode.CLIENT)
    audit = named.durable_consumer("topic://prices", "audit")
    session.send("topic://prices", "1")
    session.commit()
    audit.receive(5)
    print("ready", flush=True)
    sys.stdin.read()
    """
    start(AcknowledgeMode.TRANSACTED, program).end()
    with MessagingConnection(DropboxProvider(tmp_path, create=True), client_id="billing") as connection:
        message = connection.session().durable_consumer("topic://prices", "audit").receive_nowait()
        assert message is not None
        assert (message.value, message.delivery_count) == ("1", 2)


def test_a_client_that_was_itself_taken_for_dead_takes_over_nothing(tmp_path: Path) -> None:
    overdue = DropboxProvider(tmp_path, create=True, durable=False, lease=0.5).connect()
    other = DropboxProvider(tmp_path, create=True, durable=False, lease=0.1).connect()
    clients = tmp_path / "dropboxmq" / "clients"
    poller = overdue.poller(ORDERS)

    def is_taken_over() -> bool:
        takeover.take_over(other, at_start=False)
        return overdue.client_id not in os.listdir(clients)

    def knows_it() -> bool:
        """For half of its lease a client trusts its last look."""
        try:
            poller.take(1, 0)
        except ClaimLost:
            return True
        return False

    wait_for(is_taken_over)
    wait_for(knows_it)
    dead = DropboxProvider(tmp_path, create=True, durable=False).connect()
    dead.send(ORDERS, [Message(b"1")])
    assert dead.poller(ORDERS).take(1, 0) is not None
    dead.abandon()
    processing = tmp_path / "orders" / "incoming" / "processing"
    (claimed,) = processing.iterdir()
    with pytest.raises(ClaimLost, match="taken for dead"):
        takeover.take_over(overdue, at_start=False)
    assert list(processing.iterdir()) == [claimed]
    assert takeover.take_over(other, at_start=False) == 1
    overdue.abandon()
    other.close()
