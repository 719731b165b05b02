"""SIGKILL of sessions at every step: what each acknowledge mode promises (JMS Guaranteed Messaging)."""

from __future__ import annotations

import os
import signal
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from connector.core import takeover
from connector.core.connection import MessagingConnection
from connector.errors import ClaimLost
from connector.messaging import AcknowledgeMode, Message
from connector.messaging.destination import parse_destination
from connector.stores.dropbox.provider import DropboxProvider
from tests.core.conftest import fill, next_of
from tests.forked_command import PipedProcess
from tests.waiting import beside, wait_for, waits_in

ORDERS = parse_destination("orders")
MESSAGES = 60
ALL = {str(number) for number in range(MESSAGES)}
PROGRAM = """
import os, signal, sys
from connector.messaging import AcknowledgeMode, connect

connection = connect("dropbox:" + sys.argv[1] + "?create=true", durability="none")
session = connection.session(AcknowledgeMode[sys.argv[2]])
consumer = session.consumer("orders")

def note(message):
    os.write(log, f"{message.value} {message.delivery_count} {int(message.redelivered)}\\n".encode())

def ready():
    print("ready", flush=True)
    sys.stdin.read()
"""
LISTEN = """
consumer.listen(note)
signal.pause()
"""
RECEIVE = """
while True:
    note(consumer.receive(60))
"""
ACKNOWLEDGE_EACH_FIFTH = """
number = 0
while True:
    message = consumer.receive(60)
    note(message)
    number += 1
    if number % 5 == 0:
        message.acknowledge()
        os.write(log, b"settled\\n")
"""
RELAY_FIVE_AT_A_TIME = """
while True:
    for _ in range(5):
        message = consumer.receive(60)
        note(message)
        session.send("bills", message.value)
    session.commit()
    os.write(log, b"settled\\n")
"""
ONE_BY_ONE = ("claim:7", "settle.move:5", "settle.finished:6")
"""What is acknowledged alone is one rename."""
TOGETHER = ("claim:13", "settle.record:2", "settle.committing:2", "settle.move:8", "settle.finished:2")
"""What is settled together is one commit record."""


class Delivery(NamedTuple):
    """A message as a session was given it."""

    value: str
    number: int
    redelivered: bool


@dataclass
class Killed:
    """What a killed session noted: its deliveries, and how many of them it said to have settled."""

    deliveries: list[Delivery] = field(default_factory=list)
    settled: int = 0


class Sessions:
    """Sessions over one root, each in a process that is killed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.killed: list[Killed] = []
        with self.connect() as connection:
            fill(connection, *map(str, range(MESSAGES)))

    def connect(self) -> MessagingConnection:
        return MessagingConnection(DropboxProvider(self.root, create=True, durable=False))

    def kill(self, mode: AcknowledgeMode, program: str, *faults: str) -> None:
        """Runs a program until it is killed at a step, once for each of them."""
        for fault in faults:
            path = self.root / f"log.{len(self.killed)}"
            log = f"import os\nlog = os.open({str(path)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
            script = log + PROGRAM + program
            ended = PipedProcess(self.root, mode.name, script=script, CONNECTOR_FAULT=f"{fault}=kill")
            _, errors = ended.communicate()
            assert ended.returncode == -signal.SIGKILL, (fault, errors)
            found = Killed()
            for line in path.read_text().splitlines():
                if line == "settled":
                    found.settled = len(found.deliveries)
                else:
                    value, count, redelivered = line.split()
                    found.deliveries.append(Delivery(value, int(count), redelivered == "1"))
            self.killed.append(found)

    @property
    def noted(self) -> list[Delivery]:
        """Every delivery to a session that was killed, in its order."""
        return [delivery for killed in self.killed for delivery in killed.deliveries]

    def rest(self, queue: str = "orders") -> list[Delivery]:
        """All that is left, taken by a session that is not killed."""
        with self.connect() as connection:
            taken = connection.session().consumer(queue).messages(0)
            return [Delivery(str(m.value), m.delivery_count, m.redelivered) for m in taken]


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def values_of(deliveries: list[Delivery]) -> set[str]:
    return {delivery.value for delivery in deliveries}


def assert_flagged(deliveries: list[Delivery]) -> None:
    """Whatever came again said so, and counted."""
    counts: dict[str, int] = {}
    for delivery in deliveries:
        assert delivery.redelivered is (delivery.number > 1)
        assert delivery.number > counts.get(delivery.value, 0), delivery
        counts[delivery.value] = delivery.number


@pytest.mark.process
def test_in_auto_only_the_most_recent_message_of_a_killed_listener_comes_twice(sessions: Sessions) -> None:
    sessions.kill(AcknowledgeMode.AUTO, LISTEN, *ONE_BY_ONE)
    found = sessions.noted + sessions.rest()
    assert values_of(found) == ALL
    assert_flagged(found)
    twice = {value for value, times in Counter(delivery.value for delivery in found).items() if times > 1}
    assert twice <= {killed.deliveries[-1].value for killed in sessions.killed}
    assert twice, "the one that was not acknowledged when its session died"


@pytest.mark.process
def test_in_auto_nothing_comes_twice_that_receive_has_returned(sessions: Sessions) -> None:
    """It is acknowledged just before; at most one of a killed session was acknowledged and not returned."""
    sessions.kill(AcknowledgeMode.AUTO, RECEIVE, *ONE_BY_ONE)
    found = sessions.noted + sessions.rest()
    assert_flagged(found)
    assert len(values_of(found)) == len(found)
    assert len(found) >= MESSAGES - len(ONE_BY_ONE)


@pytest.mark.process
def test_what_was_acknowledged_never_comes_again_and_everything_else_does(sessions: Sessions) -> None:
    sessions.kill(AcknowledgeMode.CLIENT, ACKNOWLEDGE_EACH_FIFTH, *TOGETHER)
    left = sessions.rest()
    found = sessions.noted + left
    assert values_of(found) == ALL
    assert_flagged(found)
    acknowledged: set[str] = set()
    for killed in sessions.killed:
        assert not acknowledged & values_of(killed.deliveries)
        assert len(killed.deliveries) - killed.settled <= 5, "what is in doubt is one acknowledgement"
        acknowledged |= values_of(killed.deliveries[: killed.settled])
    assert not acknowledged & values_of(left)


@pytest.mark.process
def test_dups_ok_loses_nothing_and_says_what_comes_twice(sessions: Sessions) -> None:
    sessions.kill(AcknowledgeMode.DUPS_OK, RECEIVE, "claim:13", "claim:21")
    found = sessions.noted + sessions.rest()
    assert values_of(found) == ALL
    assert_flagged(found)
    assert len(found) > MESSAGES, "acknowledgements of several messages were late"


@pytest.mark.process
def test_a_transaction_that_relays_is_never_half_done(sessions: Sessions) -> None:
    sessions.kill(AcknowledgeMode.TRANSACTED, RELAY_FIVE_AT_A_TIME, *TOGETHER)
    bills = [delivery.value for delivery in sessions.rest("bills")]
    left = sessions.rest()
    assert Counter(bills + [delivery.value for delivery in left]) == Counter(ALL)
    assert len(bills) % 5 == 0
    assert_flagged(sessions.noted + left)


# -- a session that works on when it is killed -----------------------------------------------------

TAKE_TWO = """
consumer.receive_nowait(), consumer.receive_nowait()
ready()
"""
Start = Callable[[AcknowledgeMode, str], PipedProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process with a session and waits until it says that it is ready; ended after the test."""
    started: list[PipedProcess] = []

    def start(mode: AcknowledgeMode, program: str) -> PipedProcess:
        process = PipedProcess(tmp_path, mode.name, script=PROGRAM + textwrap.dedent(program))
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.end()


@pytest.mark.process
def test_a_session_that_waits_takes_over_from_a_process_that_dies_meanwhile_and_not_before(
    on_disk: MessagingConnection, tmp_path: Path, start: Start
) -> None:
    fill(on_disk, "0", "1", "2")
    dying = start(AcknowledgeMode.CLIENT, TAKE_TWO)
    with MessagingConnection(DropboxProvider(tmp_path, create=True), takeover_interval=0.0) as connection:
        consumer = connection.session().consumer("orders")
        assert (next_of(consumer).value, consumer.receive_nowait()) == ("2", None)
        waiting = beside(next_of, consumer)
        wait_for(lambda: waits_in("receive"))
        dying.end()
        assert waiting.result(120).delivery_count == 2


@pytest.mark.process
def test_the_client_id_and_subscription_of_a_killed_process_are_free(tmp_path: Path, start: Start) -> None:
    program = """
    named = connect("dropbox:" + sys.argv[1], client_id="billing").session(AcknowledgeMode.CLIENT)
    audit = named.durable_consumer("topic://prices", "audit")
    session.send("topic://prices", "1")
    session.commit()
    audit.receive(5)
    ready()
    """
    start(AcknowledgeMode.TRANSACTED, program).end()
    with MessagingConnection(DropboxProvider(tmp_path, create=True), client_id="billing") as connection:
        message = connection.session().durable_consumer("topic://prices", "audit").receive_nowait()
        assert message is not None
        assert (message.value, message.delivery_count) == ("1", 2)


@pytest.mark.process
@pytest.mark.parametrize("set_up", ["", "import logging; logging.basicConfig()"])
def test_a_program_sees_the_log_only_where_it_has_set_up_logging(
    on_disk: MessagingConnection, tmp_path: Path, start: Start, set_up: str
) -> None:
    fill(on_disk, "0")
    start(AcknowledgeMode.CLIENT, TAKE_TWO).end()
    script = f"{set_up}\n{PROGRAM}\nprint(consumer.receive(timeout=120).value)"
    output, errors = PipedProcess(tmp_path, "AUTO", script=script).communicate(timeout=120)
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
