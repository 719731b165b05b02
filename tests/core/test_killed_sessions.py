"""Sessions whose process dies, and what another session takes over from it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from connector.core import takeover
from connector.core.connection import CoreConnection
from connector.errors import ClaimLost
from connector.messaging import Message
from connector.messaging.destination import parse_destination
from connector.stores.dropbox.provider import DropboxProvider
from tests.core.conftest import fill, next_of
from tests.forked_command import PipedProcess
from tests.waiting import beside, wait_for, waits_in

ORDERS = parse_destination("orders")
PROGRAM = """
import sys
from connector.messaging import AcknowledgeMode, connect

connection = connect("dropbox:" + sys.argv[1] + "?create=true", durability="none")
consumer = connection.session(AcknowledgeMode.CLIENT).consumer("orders")
"""
TAKE_TWO = """
consumer.receive_nowait(), consumer.receive_nowait()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def dying(on_disk: CoreConnection, tmp_path: Path) -> Iterator[PipedProcess]:
    """A process with a session that has taken two of three messages."""
    fill(on_disk, "0", "1", "2")
    with PipedProcess(tmp_path, script=PROGRAM + TAKE_TWO) as process:
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.mark.process
def test_a_session_that_waits_takes_over_from_a_process_that_dies_meanwhile_and_not_before(
    tmp_path: Path, dying: PipedProcess
) -> None:
    with CoreConnection(DropboxProvider(tmp_path, create=True), takeover_interval=0.0) as connection:
        consumer = connection.session().consumer("orders")
        assert (next_of(consumer).value, consumer.receive_nowait()) == ("2", None)
        waiting = beside(next_of, consumer)
        wait_for(lambda: waits_in("receive"))
        dying.end()
        assert waiting.result(120).delivery_count == 2


@pytest.mark.process
@pytest.mark.parametrize("set_up", ["", "import logging; logging.basicConfig()"])
def test_a_program_sees_the_log_only_where_it_has_set_up_logging(
    tmp_path: Path, dying: PipedProcess, set_up: str
) -> None:
    dying.end()
    script = f"{set_up}\n{PROGRAM}\nprint(consumer.receive(timeout=240).value)"
    output, errors = PipedProcess(tmp_path, script=script).communicate(timeout=240)
    assert output == "0\n"
    if set_up:
        assert "messages of a dead client are redelivered" in errors
    else:
        assert errors == ""


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
