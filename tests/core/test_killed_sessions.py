"""SIGKILL of sessions at every step: what each acknowledge mode promises (JMS Guaranteed Messaging)."""

from __future__ import annotations

import signal
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connector.core.connection import MessagingConnection
from connector.messaging import AcknowledgeMode
from connector.stores.dropbox.provider import DropboxProvider
from tests.forked_command import PipedProcess

pytestmark = pytest.mark.process
MESSAGES = 60
ALL = {str(number) for number in range(MESSAGES)}
_PROGRAM = """
import os, signal, sys
from connector.messaging import AcknowledgeMode, connect

log = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(message):
    os.write(log, f"{message.value} {message.delivery_count} {int(message.redelivered)}\\n".encode())

connection = connect("dropbox:" + sys.argv[1] + "?create=true", durability="none")
session = connection.session(AcknowledgeMode[sys.argv[2]])
consumer = session.consumer("orders")
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


@dataclass
class Delivery:
    """A message as a session was given it."""

    value: str
    count: int
    redelivered: bool


@dataclass
class Killed:
    """What a killed session noted.

    Args:
        deliveries: in their order.
        settled: so many of them were before it said that it had settled.
    """

    deliveries: list[Delivery] = field(default_factory=list)
    settled: int = 0


class Sessions:
    """Sessions over one root, each in a process that is killed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.killed: list[Killed] = []
        with self.connect() as connection:
            connection.session().send_many("orders", [str(number) for number in range(MESSAGES)])

    def connect(self) -> MessagingConnection:
        return MessagingConnection(DropboxProvider(self.root, create=True, durable=False))

    def kill(self, mode: AcknowledgeMode, program: str, fault: str) -> None:
        """Runs a program until it is killed at a step."""
        log = self.root / f"log.{len(self.killed)}"
        script = _PROGRAM + textwrap.dedent(program)
        ended = PipedProcess(self.root, mode.name, log, script=script, CONNECTOR_FAULT=f"{fault}=kill")
        _, errors = ended.communicate()
        assert ended.returncode == -signal.SIGKILL, (fault, errors)
        found = Killed()
        for line in log.read_text().splitlines():
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


def assert_flagged(deliveries: list[Delivery]) -> None:
    """Whatever came again said so, and counted."""
    counts: dict[str, int] = {}
    for delivery in deliveries:
        assert delivery.redelivered is (delivery.count > 1)
        assert delivery.count > counts.get(delivery.value, 0), delivery
        counts[delivery.value] = delivery.count


def test_in_auto_only_the_most_recent_message_of_a_killed_listener_comes_twice(sessions: Sessions) -> None:
    for fault in ONE_BY_ONE:
        sessions.kill(AcknowledgeMode.AUTO, LISTEN, fault)
    found = sessions.noted + sessions.rest()
    assert {delivery.value for delivery in found} == ALL
    assert_flagged(found)
    twice = {value for value, times in Counter(delivery.value for delivery in found).items() if times > 1}
    assert twice <= {killed.deliveries[-1].value for killed in sessions.killed}
    assert twice, "the one that was not acknowledged when its session died"


def test_in_auto_nothing_comes_twice_that_receive_has_returned(sessions: Sessions) -> None:
    """It is acknowledged just before; at most one of a killed session was acknowledged and not returned."""
    for fault in ONE_BY_ONE:
        sessions.kill(AcknowledgeMode.AUTO, RECEIVE, fault)
    found = sessions.noted + sessions.rest()
    assert_flagged(found)
    assert len({delivery.value for delivery in found}) == len(found)
    assert len(found) >= MESSAGES - len(ONE_BY_ONE)


def test_what_was_acknowledged_never_comes_again_and_everything_else_does(sessions: Sessions) -> None:
    for fault in TOGETHER:
        sessions.kill(AcknowledgeMode.CLIENT, ACKNOWLEDGE_EACH_FIFTH, fault)
    left = sessions.rest()
    found = sessions.noted + left
    assert {delivery.value for delivery in found} == ALL
    assert_flagged(found)
    acknowledged: set[str] = set()
    for killed in sessions.killed:
        assert not acknowledged & {delivery.value for delivery in killed.deliveries}
        assert len(killed.deliveries) - killed.settled <= 5, "what is in doubt is one acknowledgement"
        acknowledged |= {delivery.value for delivery in killed.deliveries[: killed.settled]}
    assert not acknowledged & {delivery.value for delivery in left}


def test_dups_ok_loses_nothing_and_says_what_comes_twice(sessions: Sessions) -> None:
    for fault in ("claim:13", "claim:21"):
        sessions.kill(AcknowledgeMode.DUPS_OK, RECEIVE, fault)
    found = sessions.noted + sessions.rest()
    assert {delivery.value for delivery in found} == ALL
    assert_flagged(found)
    assert len(found) > MESSAGES, "acknowledgements of several messages were late"


def test_a_transaction_that_relays_is_never_half_done(sessions: Sessions) -> None:
    for fault in TOGETHER:
        sessions.kill(AcknowledgeMode.TRANSACTED, RELAY_FIVE_AT_A_TIME, fault)
    bills = [delivery.value for delivery in sessions.rest("bills")]
    left = sessions.rest()
    assert Counter(bills + [delivery.value for delivery in left]) == Counter(ALL)
    assert len(bills) % 5 == 0
    assert_flagged(sessions.noted + left)
