"""Sessions in every mode against a model of them, step by step in any order (hypothesis, stateful)."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from connector.core.connection import CoreConnection
from connector.core.session import CoreSession
from connector.messaging import AcknowledgeMode, Consumer, ReceivedMessage
from connector.stores.memory.provider import MemoryProvider

AUTO, DUPS_OK, CLIENT, INDIVIDUAL, TRANSACTED = AcknowledgeMode


@dataclass
class Stored:
    """A message as the model knows it."""

    number: int
    priority: int
    deliveries: int = 0


class Worker:
    """A session under test, and what the model says that it holds."""

    def __init__(self, connection: CoreConnection, mode: AcknowledgeMode) -> None:
        self.session: CoreSession = connection.session(mode)
        self.mode = mode
        self.consumer: Consumer = self.session.consumer("orders")
        self.held: list[tuple[Stored, ReceivedMessage]] = []
        self.unsent: list[Stored] = []


class Sessions(RuleBasedStateMachine):
    """Several sessions on one queue. DUPS_OK is left out: when it acknowledges is its own affair."""

    workers = Bundle("workers")

    @initialize()
    def begin(self) -> None:
        self.connection = CoreConnection(MemoryProvider())
        self.observer = self.connection.session()
        self.observer.consumer("orders").close()
        self.waiting: list[Stored] = []
        self.all: list[Worker] = []
        self.number = 0

    @rule(target=workers, mode=st.sampled_from([AUTO, CLIENT, INDIVIDUAL, TRANSACTED]))
    def open(self, mode: AcknowledgeMode) -> Worker:
        worker = Worker(self.connection, mode)
        self.all.append(worker)
        return worker

    @rule(worker=workers, priority=st.integers(0, 9))
    def send(self, worker: Worker, priority: int) -> None:
        self.number += 1
        message = Stored(self.number, priority)
        worker.session.producer("orders", priority=priority).send(str(self.number))
        (worker.unsent if worker.mode is TRANSACTED else self.waiting).append(message)

    @rule(worker=workers)
    def receive(self, worker: Worker) -> None:
        message = worker.consumer.receive_nowait()
        expected = min(self.waiting, key=lambda one: (-one.priority, one.number), default=None)
        if expected is None:
            assert message is None
            return
        assert message is not None
        expected.deliveries += 1
        found = Stored(int(message.value), message.priority, message.delivery_count)
        assert (found, message.redelivered) == (expected, expected.deliveries > 1)
        self.waiting.remove(expected)
        if worker.mode is not AUTO:
            worker.held.append((expected, message))

    @rule(worker=workers, choice=st.integers(0, 10))
    def acknowledge(self, worker: Worker, choice: int) -> None:
        if not worker.held:
            return
        held = worker.held[choice % len(worker.held)]
        held[1].acknowledge()
        if worker.mode is CLIENT:
            worker.held = []
        elif worker.mode is INDIVIDUAL:
            worker.held.remove(held)

    @rule(worker=workers)
    def undo(self, worker: Worker) -> None:
        worker.session.rollback() if worker.mode is TRANSACTED else worker.session.recover()
        self._returned(worker)

    @rule(worker=workers)
    def commit(self, worker: Worker) -> None:
        if worker.mode is TRANSACTED:
            worker.session.commit()
            worker.held = []
            self.waiting += worker.unsent
            worker.unsent = []

    @rule(worker=consumes(workers))
    def close(self, worker: Worker) -> None:
        worker.session.close()
        self._returned(worker)

    def _returned(self, worker: Worker) -> None:
        self.waiting += [message for message, _ in worker.held]
        worker.held = []
        worker.unsent = []

    @precondition(lambda self: hasattr(self, "observer"))
    @invariant()
    def the_store_holds_what_is_neither_acknowledged_nor_uncommitted(self) -> None:
        held = [message for worker in self.all for message, _ in worker.held]
        expected = sorted(message.number for message in [*self.waiting, *held])
        assert sorted(int(message.value) for message in self.observer.browser("orders")) == expected

    def teardown(self) -> None:
        if hasattr(self, "connection"):
            self.connection.close()


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=40, stateful_step_count=40)
