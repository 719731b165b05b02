"""What dead processes leave: real ones, ended by SIGKILL."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connector.core import takeover
from connector.core.connection import MessagingConnection
from connector.errors import ClaimLost
from connector.messaging import AcknowledgeMode, Message, connect
from connector.messaging.destination import parse_destination
from connector.stores.dropbox.provider import DropboxProvider
from tests.forked_command import PipedProcess
from tests.waiting import wait_for

_PROGRAM = """
import sys, time
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


def kill(process: PipedProcess) -> None:
    process.kill()
    process.wait()


def fill(root: Path, number: int) -> None:
    with (
        connect(f"dropbox:{root}?create=true", durability="none") as connection,
        connection.session() as session,
    ):
        session.send_many("orders", [str(one) for one in range(number)])


TAKE_TWO = """
consumer.receive_nowait(), consumer.receive_nowait()
print("ready", flush=True)
time.sleep(60)
"""

LISTEN = """
def listener(message):
    print("ready", flush=True)
    time.sleep(60)
consumer.listen(listener)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.DUPS_OK, AcknowledgeMode.TRANSACTED]
)
def test_what_a_killed_session_had_not_acknowledged_comes_again_flagged(
    tmp_path: Path, start: Start, mode: AcknowledgeMode
) -> None:
    fill(tmp_path, 3)
    kill(start(mode, TAKE_TWO))
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        messages = list(connection.session().consumer("orders").messages(0))
    assert [(m.value, m.delivery_count, m.redelivered) for m in messages] == [
        ("0", 2, True),
        ("1", 2, True),
        ("2", 1, False),
    ]


def test_auto_loses_nothing_but_what_receive_has_returned(tmp_path: Path, start: Start) -> None:
    fill(tmp_path, 3)
    kill(start(AcknowledgeMode.AUTO, TAKE_TWO))
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        messages = list(connection.session().consumer("orders").messages(0))
    assert [(m.value, m.delivery_count) for m in messages] == [("2", 1)]


def test_auto_brings_again_the_message_whose_listener_was_killed(tmp_path: Path, start: Start) -> None:
    """Only the most recent message may come twice."""
    fill(tmp_path, 3)
    kill(start(AcknowledgeMode.AUTO, LISTEN))
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        messages = list(connection.session().consumer("orders").messages(0))
    assert [(m.value, m.delivery_count) for m in messages] == [("0", 2), ("1", 1), ("2", 1)]


def test_counts_add_up_over_many_deaths(tmp_path: Path, start: Start) -> None:
    fill(tmp_path, 1)
    for _ in range(3):
        kill(start(AcknowledgeMode.CLIENT, TAKE_TWO))
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        message = connection.session().consumer("orders").receive_nowait()
    assert message is not None
    assert message.delivery_count == 4


def test_a_session_that_waits_takes_over_from_a_process_that_dies_meanwhile(
    tmp_path: Path, start: Start
) -> None:
    fill(tmp_path, 2)
    dying = start(AcknowledgeMode.CLIENT, TAKE_TWO)
    with MessagingConnection(DropboxProvider(tmp_path, create=True), takeover_interval=0.2) as connection:
        consumer = connection.session().consumer("orders")
        assert consumer.receive(0.5) is None
        kill(dying)
        begun = time.monotonic()
        message = consumer.receive(10)
        assert message is not None
        assert message.delivery_count == 2
        assert time.monotonic() - begun < 5


def test_the_living_keep_what_they_have(tmp_path: Path, start: Start) -> None:
    fill(tmp_path, 2)
    start(AcknowledgeMode.CLIENT, TAKE_TWO)
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        assert connection.session().consumer("orders").receive(0.3) is None


def test_what_a_killed_transaction_has_sent_is_never_seen(tmp_path: Path, start: Start) -> None:
    program = """
    session.send_many("bills", ["1", "2"])
    print("ready", flush=True)
    time.sleep(60)
    """
    kill(start(AcknowledgeMode.TRANSACTED, program))
    with MessagingConnection(DropboxProvider(tmp_path, create=True)) as connection:
        session = connection.session()
        assert session.consumer("bills").receive_nowait() is None
    assert list((tmp_path / "bills/incoming/working").iterdir()) == []


def test_the_client_id_and_subscription_of_a_killed_process_are_free(tmp_path: Path, start: Start) -> None:
    program = """
    named = connect("dropbox:" + sys.argv[1], client_id="billing").session(AcknowledgeMode.CLIENT)
    audit = named.durable_consumer("topic://prices", "audit")
    session.send("topic://prices", "1")
    session.commit()
    audit.receive(5)
    print("ready", flush=True)
    time.sleep(60)
    """
    kill(start(AcknowledgeMode.TRANSACTED, program))
    with MessagingConnection(DropboxProvider(tmp_path, create=True), client_id="billing") as connection:
        message = connection.session().durable_consumer("topic://prices", "audit").receive_nowait()
        assert message is not None
        assert (message.value, message.delivery_count) == ("1", 2)


def test_a_client_that_was_itself_taken_for_dead_takes_over_nothing(tmp_path: Path) -> None:
    overdue = DropboxProvider(tmp_path, create=True, durable=False, lease=0.5).connect()
    other = DropboxProvider(tmp_path, create=True, durable=False, lease=0.1).connect()

    def is_taken_over() -> bool:
        takeover.take_over(other, at_start=False)
        return overdue.client_id not in os.listdir(other.store.layout.clients)

    wait_for(is_taken_over)
    time.sleep(0.3)  # for half of its lease it trusts its last look
    dead = DropboxProvider(tmp_path, create=True, durable=False).connect()
    dead.send(ORDERS, [Message(b"1")])
    claim = dead.poller(ORDERS).take(1, 0)
    dead.abandon()
    with pytest.raises(ClaimLost, match="taken for dead"):
        takeover.take_over(overdue, at_start=False)
    assert claim is not None
    assert os.path.exists(tmp_path / claim.path)
    assert takeover.take_over(other, at_start=False) == 1
    overdue.abandon()
    other.close()
