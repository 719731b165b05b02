"""A small broker in this process, which behaves as a JMS broker does (JMS 2.0, 6.2.7 and 6.2.10).

It stands in for a server, which these tests cannot start.

A session is one transaction after another. What it receives is locked to it. A commit makes its
acknowledgements and its sends final together. A rollback returns everything that it has received, each
message with its delivery count raised. When a connection ends, its sessions are rolled back. There is no
other crash recovery.
"""

from __future__ import annotations

import bisect
import itertools
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from connector.brokers.engine.broker import MessageRefused
from connector.errors import ProviderError
from connector.messaging.message import Message
from connector.messaging.selector import compile_selector


class BrokerError(ProviderError):
    """The broker has refused something, or the connection has ended."""


class Refusal(BrokerError, MessageRefused):
    """The broker has refused a message."""


@dataclass(eq=False, slots=True)
class Stored:
    """A message of a queue."""

    number: int
    message: Message
    due: int = 0
    """Its delivery time, in milliseconds since 1970. No receiver sees it."""
    session: BrokerSession | None = None
    """It is locked to this one."""

    @property
    def place(self) -> tuple[int, int]:
        """Sorts it in its queue."""
        return -self.message.priority, self.number


class Broker:
    """Queues. For any thread."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        """Notified when messages have come or have come back."""
        self.queues: dict[str, list[Stored]] = {}
        self.refused: set[str] = set()
        """Queues to which nothing can be sent."""
        self.without_room: set[str] = set()
        """Queues where a send waits until :meth:`make_room`."""
        self.refuses: Callable[[str, Message], bool] = lambda queue, message: False
        """Whether a queue refuses a message."""
        self.full: set[str] = set()
        """Queues at which a client waits for room, until its time is over."""
        self.interrupts: Callable[[str, Message], bool] = lambda queue, message: False
        """Whether the connection is lost as a message is sent. The client library connects anew."""
        self.is_silent: Callable[[str, Message], bool] = lambda queue, message: False
        """Whether a queue keeps a message from its receivers. Browsers see the message."""
        self.slow: set[str] = set()
        """Queues whose messages come only to who asks: others do not wait long enough."""
        self.is_mute = False
        """Whether no question is answered."""
        self.unreadable: set[bytes] = set()
        """Bodies of messages that the client's library takes and cannot read."""
        self.too_large: set[bytes] = set()
        """Bodies that use up the memory of a client's library, which ends its connection."""
        self.limit: int | None = None
        """Deliveries after which a message goes to the queue ``DLQ``. None = it never does."""
        self.keeps_delays = True
        """Whether a message waits for its delivery time."""
        self.lost_answers: list[str] = []
        """What becomes of the next commits, whose answers are lost: ``done``, ``undone`` or ``late``.

        Empty text = the answer arrives.
        """
        self.late: list[BrokerSession] = []
        """Sessions whose commits are still on their way."""
        self.connections: list[BrokerConnection] = []
        self.client_ids: dict[str, BrokerConnection] = {}
        self._numbers = itertools.count()

    def connect(self) -> BrokerConnection:
        connection = BrokerConnection(self)
        self.connections.append(connection)
        return connection

    def make_room(self) -> None:
        """Ends the waits of all sends."""
        with self.changed:
            self.without_room.clear()
            self.changed.notify_all()

    def waiting(self, queue: str, selector: str = "") -> list[Stored]:
        """What waits in a queue. What is locked to a session or delayed is seen by nobody else."""
        now = time.time_ns() // 1_000_000
        matches = compile_selector(selector).matches if selector else None
        with self.changed:
            kept = self.queues.setdefault(queue, [])
            kept[:] = [one for one in kept if one.session or not 0 < one.message.expiration <= now]
            free = [one for one in kept if not one.session and not (self.keeps_delays and one.due > now)]
            return [one for one in free if not matches or matches(one.message)]

    def add(self, queue: str, message: Message) -> None:
        with self.changed:
            due, message.delivery_time = message.delivery_time, 0
            stored = Stored(next(self._numbers), message, due)
            bisect.insort(self.queues.setdefault(queue, []), stored, key=lambda one: one.place)
            self.changed.notify_all()


class BrokerConnection:
    """A connection. Its sessions end with it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.id = secrets.token_hex(6)
        self.ended = False
        self.shortage = ""
        self.sessions: set[BrokerSession] = set()
        self.temporaries: list[str] = []
        self._numbers = itertools.count(1)

    def session(self) -> BrokerSession:
        session = BrokerSession(self)
        self.sessions.add(session)
        return session

    def temporary(self) -> str:
        """Makes a queue that ends with this connection."""
        name = f"temporary-{self.id}-{next(self._numbers)}"
        with self.broker.changed:
            self.broker.queues[name] = []
            self.temporaries.append(name)
        return name

    def new_id(self) -> str:
        """A JMSMessageID. It is made when a message is sent, and nobody can choose it (JMS 2.0, 3.4.3)."""
        return f"ID:{self.id}:{next(self._numbers)}"

    def close(self) -> None:
        with self.broker.changed:
            for session in list(self.sessions):
                session.close()
            for name in self.temporaries:
                self.broker.queues.pop(name, None)
            self.temporaries.clear()
            self.ended = True
            self.broker.changed.notify_all()


class BrokerSession:
    """A transacted session."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._broker = connection.broker
        self._received: list[tuple[str, Stored]] = []
        self._sent: list[tuple[str, Message]] = []

    def receive(self, queue: str, selector: str = "") -> Message | None:
        """Receives a message without waiting. None = nothing waits."""
        with self._broker.changed:
            self._check()
            for one in self._broker.waiting(queue, selector):
                if self._broker.is_silent(queue, one.message):
                    continue
                if one.message.body in self._broker.too_large:
                    self._connection.shortage = "no memory"
                    self._connection.close()
                    raise BrokerError("no memory")
                one.session = self
                self._received.append((queue, one))
                return one.message.copy(one.message.body)
            return None

    def acknowledge(self, message_id: str | None) -> None:
        """Acknowledges one of the received messages alone."""
        with self._broker.changed:
            self._check()
            (found,) = (one for one in self._received if one[1].message.message_id == message_id)
            self._received.remove(found)
            self._broker.queues[found[0]].remove(found[1])

    def send(self, queue: str, message: Message) -> None:
        """Sends a message with the commit. Its id and its time are set."""
        with self._broker.changed:
            self._broker.changed.wait_for(
                lambda: queue not in self._broker.without_room or self._connection.ended
            )
            self._check()
            if queue in self._broker.refused or self._broker.refuses(queue, message):
                raise Refusal(f"{queue}: no right to send")
            if queue in self._broker.full:
                raise BrokerError(f"{queue}: timed out waiting for credit")
            if self._broker.interrupts(queue, message):
                raise BrokerError("send failed due to connection loss")
            if queue.startswith("temporary-") and queue not in self._broker.queues:
                raise Refusal(f"{queue}: there is no such queue")
            message.message_id = self._connection.new_id()
            message.timestamp = time.time_ns() // 1_000_000
            self._sent.append((queue, message.copy(message.body)))

    def commit(self) -> None:
        with self._broker.changed:
            self._check()
            lost = None
            if self._received and self._broker.lost_answers:
                lost = self._broker.lost_answers.pop(0) or None
            if lost == "late":
                self._broker.late.append(self)
                self._connection.sessions.discard(self)
            elif lost != "undone":
                self._commit()
            if lost is not None:
                self._connection.close()
                raise BrokerError("the answer is lost")

    def end_late(self, *, commits: bool) -> None:
        """Commits or rolls back a transaction whose connection has ended."""
        with self._broker.changed:
            self._broker.late.remove(self)
            if commits:
                self._commit()
            else:
                self._roll_back()

    def _commit(self) -> None:
        for queue, stored in self._received:
            self._broker.queues[queue].remove(stored)
        for queue, message in self._sent:
            if not queue.startswith("temporary-") or queue in self._broker.queues:
                self._broker.add(queue, message)
        self._received, self._sent = [], []

    def rollback(self) -> None:
        with self._broker.changed:
            self._check()
            self._roll_back()

    def _roll_back(self) -> None:
        limit = self._broker.limit
        for queue, stored in self._received:
            stored.session = None
            stored.message.delivery_count += 1
            if limit is not None and stored.message.delivery_count > limit:
                self._broker.queues[queue].remove(stored)
                self._broker.add("DLQ", stored.message)
        self._received, self._sent = [], []
        self._broker.changed.notify_all()

    def close(self) -> None:
        with self._broker.changed:
            if not self._connection.ended:
                self.rollback()
            self._connection.sessions.discard(self)

    def _check(self) -> None:
        if self._connection.ended:
            raise BrokerError("the connection has ended")
