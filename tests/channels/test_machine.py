"""Channels under any sequence of what can be done to them, beside a model that only knows the states."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from connector.channels.state import MessageState
from connector.channels.transaction import ChannelTransaction
from connector.core.receiver import NotAccepted, Reference
from connector.errors import ClaimLost, TransactionRolledBack
from connector.messaging.message import NON_PERSISTENT, Message
from tests.channels.transitions import TRANSITIONS, Transition
from tests.channels.world import DELIVERED, NEW, NOT_COMMITTED, Recorder, a_world

NAMES = st.sampled_from(["a", "b", "picky"])
RECEIVERS = st.sets(NAMES)
ANSWERS = st.sampled_from([True, True, False, False, None, NotAccepted("no"), RuntimeError("broken")])
FIRST_ANSWERS = st.fixed_dictionaries(dict.fromkeys(("a", "b", "picky"), ANSWERS))
PRIORITIES = st.integers(0, 9)
PICKS = st.integers(0, 1000)


Answers = dict[str, bool | Exception | None]


class ChannelMachine(RuleBasedStateMachine):
    """Channels of one process, with up to three receivers. One of them wants messages from priority 5 up."""

    kind: ClassVar[str]
    state: dict[Any, MessageState]

    @initialize(answers=FIRST_ANSWERS, names=RECEIVERS, reliable=st.booleans())
    def start(self, answers: Answers, names: set[str], reliable: bool) -> None:
        self.stack = ExitStack()
        self.world = self.stack.enter_context(a_world(self.kind))
        self.channels = self.world.open()
        self.known = {name: Recorder(name, answer) for name, answer in answers.items()}
        self.known["picky"].wanted = lambda reference: reference.headers.priority >= 5
        self.attached: set[str] = set()
        self.headers: dict[str, object] = {} if reliable else {"delivery_mode": NON_PERSISTENT}
        """Of each message. No order is promised between persistent messages and others."""
        self.begin()
        self.add_all(names)

    def begin(self) -> None:
        """Opens the channel, and begins its model."""
        raise NotImplementedError

    def step(self, key: Any, *transitions: Transition) -> None:
        """Changes the state of a message by its key. A step that is not in the table fails."""
        for transition in transitions:
            self.state[key] = TRANSITIONS[self.state.get(key), transition]

    def add(self, name: str) -> None:
        """Adds a receiver."""
        raise NotImplementedError

    def add_all(self, names: set[str]) -> None:
        for name in sorted(names):
            self.add(name)

    @rule(name=NAMES, answer=ANSWERS)
    def answer(self, name: str, answer: bool | Exception | None) -> None:
        self.known[name].answer = answer

    def teardown(self) -> None:
        self.stack.close()


class QueueMachine(ChannelMachine):
    """One queue, and at most one transaction."""

    def begin(self) -> None:
        self.queue = self.channels.queue("orders")
        self.log: list[tuple[Recorder, str, bool]] = []
        for receiver in self.known.values():
            self.observe(receiver)
        self.sent: dict[str, Message] = {}
        self.state = {}
        self.holder: dict[str, str] = {}
        self.seen: set[str] = set()
        self.transaction: ChannelTransaction | None = None
        self.logged: set[str] = set()
        self.lost = False

    def observe(self, receiver: Recorder) -> None:
        told = receiver.handle

        def handle(reference: Reference, /) -> bool | None:
            self.log.append((receiver, reference.message_id, reference.redelivered))
            return told(reference)

        receiver.handle = handle  # type: ignore[method-assign]

    # -- the model -----------------------------------------------------------------------------------

    def learn(self, *, redelivering: str = "") -> None:
        """Follows what the receivers have got; each must have been allowed to get it."""
        order = []
        for receiver, identity, flag in self.log:
            assert flag is (identity in self.seen)
            if redelivering:
                assert (self.state[identity], self.holder[identity]) == (DELIVERED, receiver.receiver_id)
                assert identity not in self.logged
            else:
                assert self.state[identity] is NEW
                assert receiver.receiver_id in self.attached
                assert receiver.receiver_id != "picky" or self.sent[identity].priority >= 5
                order.append(self.place(identity))
                self.step(identity, Transition.CLAIM)
            if receiver.answer is True:
                self.step(identity, Transition.ACKNOWLEDGE)
            elif receiver.answer is False:
                self.holder[identity] = receiver.receiver_id
            elif not redelivering:
                self.step(identity, Transition.GIVE_BACK)
            if redelivering or receiver.answer is False:
                self.seen.add(identity)
        assert order == sorted(order)
        self.log.clear()

    def note(self, message: Message, *transitions: Transition) -> None:
        """A message was sent."""
        self.sent[message.message_id or ""] = message
        self.step(message.message_id or "", *transitions)

    def prepare(self, **headers: int) -> Message:
        """Sends a message in the transaction."""
        self.transaction = self.transaction or self.channels.transaction()
        message = self.world.message("x", **self.headers, **headers)
        assert self.queue.handle(message, self.transaction) is True
        self.note(message, Transition.PREPARE)
        return message

    def undo(self, message: Message | None = None) -> None:
        """The transaction was rolled back; ``message`` had expired in it."""
        for identity in self.having(NOT_COMMITTED):
            expired = message is not None and identity == message.message_id
            self.step(identity, Transition.EXPIRE if expired else Transition.ROLLBACK)
        self.transaction, self.lost, self.logged = None, False, set()

    def place(self, identity: str) -> tuple[int, int]:
        return -self.sent[identity].priority, list(self.sent).index(identity)

    def having(self, state: MessageState) -> list[str]:
        return sorted((i for i, found in self.state.items() if found is state), key=self.place)

    def after_sending(self, *priorities: int) -> None:
        """An attempt has been made if something was sent that somebody may want."""
        self.learn()
        if priorities and (self.attached - {"picky"} or (self.attached and max(priorities) >= 5)):
            self.nothing_deliverable_is_left()

    def nothing_deliverable_is_left(self) -> None:
        willing = [self.known[name] for name in self.attached if isinstance(self.known[name].answer, bool)]
        for identity in self.having(NEW):
            assert not any(
                receiver.receiver_id != "picky" or self.sent[identity].priority >= 5 for receiver in willing
            )

    def forget_process(self) -> None:
        """What was delivered is nobody's again."""
        for identity in self.having(DELIVERED):
            self.step(identity, Transition.GIVE_BACK)
        self.attached.clear()
        self.holder.clear()

    # -- what can be done ----------------------------------------------------------------------------

    @rule(priority=PRIORITIES)
    def send(self, priority: int) -> None:
        message = self.world.message("x", priority=priority, **self.headers)
        assert self.queue.handle(message) is True
        self.note(message, Transition.SEND)
        self.after_sending(priority)

    @rule(priority=PRIORITIES)
    def send_in_transaction(self, priority: int) -> None:
        self.prepare(priority=priority)

    @precondition(lambda self: self.transaction is not None)
    @rule()
    def commit(self) -> None:
        assert self.transaction is not None
        if self.lost:
            with pytest.raises(TransactionRolledBack, match="came again"):
                self.transaction.commit()
            self.undo()
            return
        self.transaction.commit()
        sent = self.having(NOT_COMMITTED)
        for identity in sent:
            self.step(identity, Transition.COMMIT)
        for identity in self.logged:
            self.step(identity, Transition.ACKNOWLEDGE)
        self.after_sending(*(self.sent[identity].priority for identity in sent))
        self.transaction, self.logged = None, set()

    @precondition(lambda self: self.transaction is not None)
    @rule()
    def roll_back(self) -> None:
        assert self.transaction is not None
        self.transaction.rollback()
        self.undo()

    @precondition(lambda self: self.attached)
    @rule()
    def deliver_what_has_expired(self) -> None:
        message = self.world.message("late", expiration=1)
        other = self.world.provider.connect()
        other.send(self.queue.destination, [message])  # a channel would not send it
        other.close()
        self.note(message, Transition.SEND, Transition.EXPIRE)
        self.deliver()

    @rule()
    def commit_what_has_expired(self) -> None:
        message = self.prepare(expiration=1)
        assert self.transaction is not None
        with pytest.raises(TransactionRolledBack):
            self.transaction.commit()
        self.undo(message)

    @rule(name=NAMES)
    def add(self, name: str) -> None:
        if name in self.attached:
            with pytest.raises(ValueError, match="already"):
                self.queue.add_receiver(self.known[name])
            return
        self.attached.add(name)
        self.queue.add_receiver(self.known[name])
        self.learn()
        self.nothing_deliverable_is_left()

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        if name in self.attached:
            self.queue.remove_receiver(name)
            self.attached.remove(name)

    @rule()
    def deliver(self) -> None:
        complete = self.queue.deliver()
        self.learn()
        assert complete is (not self.having(NEW))
        self.nothing_deliverable_is_left()

    @rule(name=NAMES)
    def redeliver(self, name: str) -> None:
        due = [i for i in self.having(DELIVERED) if self.holder[i] == name and i not in self.logged]
        self.seen.update(due)
        self.queue.redeliver(self.known[name])
        assert [identity for _, identity, _ in self.log] == due
        self.learn(redelivering=name)

    @precondition(lambda self: self.having(DELIVERED))
    @rule(pick=PICKS, transacted=st.booleans())
    def acknowledge(self, pick: int, transacted: bool) -> None:
        held = self.having(DELIVERED)
        identity = held[pick % len(held)]
        if transacted:
            self.transaction = self.transaction or self.channels.transaction()
            self.queue.acknowledge(identity, self.holder[identity], self.transaction)
            self.logged.add(identity)
        else:
            self.queue.acknowledge(identity, self.holder[identity])
            self.queue.acknowledge(identity, self.holder[identity])  # once more is ignored
            self.logged.discard(identity)
            self.step(identity, Transition.ACKNOWLEDGE)

    @rule(pick=PICKS, name=NAMES)
    def acknowledge_what_another_has_or_nobody(self, pick: int, name: str) -> None:
        held = [identity for identity in self.having(DELIVERED) if self.holder[identity] != name]
        others = ["ID:unknown", *held, *self.having(NEW)]
        with pytest.raises(ClaimLost, match="does not hold this message"):
            self.queue.acknowledge(others[pick % len(others)], name)

    @rule(names=RECEIVERS)
    def close_and_open(self, names: set[str]) -> None:
        self.queue.close()
        self.queue = self.channels.queue("orders")
        still = {identity for identity in self.logged if self.state[identity] is DELIVERED}
        self.lost = self.lost or bool(still)
        self.logged -= still
        self.forget_process()
        self.add_all(names)

    @rule(names=RECEIVERS)
    def end_and_recover(self, names: set[str]) -> None:
        self.channels.abandon()
        self.channels = self.world.open()
        self.queue = self.channels.queue("orders")
        self.undo()
        self.forget_process()
        self.add_all(names)

    # -- what is always true -------------------------------------------------------------------------

    @invariant()
    def every_message_is_in_its_state(self) -> None:
        for state in (NEW, DELIVERED):
            assert [message.message_id for message in self.queue.messages(state)] == self.having(state)
        not_committed = [message.message_id or "" for message in self.queue.messages(NOT_COMMITTED)]
        assert sorted(not_committed, key=self.place) == self.having(NOT_COMMITTED)
        for identity in self.having(DELIVERED):
            assert self.queue.receivers_of(identity) == {self.holder[identity]}

    @invariant()
    def browse_shows_what_is_new_or_delivered_in_order(self) -> None:
        expected = sorted([*self.having(NEW), *self.having(DELIVERED)], key=self.place)
        assert [message.message_id for message in self.queue.browse()] == expected


class TopicMachine(ChannelMachine):
    """One topic: who holds which message. A share of a message that waits ends with its receiver."""

    def begin(self) -> None:
        self.topic = self.channels.topic("prices")
        self.state = {}
        """By receiver and message. A share is NEW where its receiver was broken for it."""

    def having(self, state: MessageState, name: str) -> list[str]:
        return [identity for (who, identity), found in self.state.items() if found is state and who == name]

    def messages(self, state: MessageState) -> set[str]:
        return {identity for (_, identity), found in self.state.items() if found is state}

    def expect_delivery(self) -> dict[str, list[str]]:
        """What an attempt brings to whom; the state after it."""
        brought = {}
        for name in self.attached:
            receiver = self.known[name]
            brought[name] = self.having(NEW, name)
            for identity in brought[name]:
                self.step((name, identity), Transition.CLAIM)
                if isinstance(receiver.answer, RuntimeError):
                    self.step((name, identity), Transition.GIVE_BACK)
                elif receiver.answer is not False:
                    self.step((name, identity), Transition.ACKNOWLEDGE)
        return brought

    def check_delivery(self, expected: dict[str, list[str]]) -> None:
        for name, receiver in self.known.items():
            assert sorted(receiver.ids) == sorted(expected.get(name, []))
            assert not any(receiver.flags)
            receiver.forget()

    @rule(priority=PRIORITIES, transacted=st.booleans())
    def send(self, priority: int, transacted: bool) -> None:
        message = self.world.message("x", priority=priority, **self.headers)
        ways: tuple[Transition, ...] = (Transition.SEND,)
        if transacted:
            ways = Transition.PREPARE, Transition.COMMIT
            with self.channels.transaction() as transaction:
                assert self.topic.handle(message, transaction) is True
        else:
            assert self.topic.handle(message) is True
        identity = message.message_id or ""
        for name in self.attached:
            if name != "picky" or priority >= 5:
                self.step((name, identity), *ways)
        self.check_delivery(self.expect_delivery())

    @rule(name=NAMES)
    def add(self, name: str) -> None:
        if name not in self.attached:
            expected = self.expect_delivery()  # what waits for the others is tried too
            self.attached.add(name)
            self.topic.add_receiver(self.known[name])
            self.check_delivery(expected)

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        if name in self.attached:
            self.attached.remove(name)
            for identity in self.having(NEW, name):
                del self.state[name, identity]
            expected = self.expect_delivery()
            self.topic.remove_receiver(name)
            self.check_delivery(expected)

    @rule()
    def deliver(self) -> None:
        expected = self.expect_delivery()
        assert self.topic.deliver() is (NEW not in self.state.values())
        self.check_delivery(expected)

    @rule(name=NAMES)
    def redeliver(self, name: str) -> None:
        receiver, held = self.known[name], self.having(DELIVERED, name)
        nothing = self.topic.redeliver(receiver)
        assert sorted(receiver.ids) == sorted(held)
        assert all(receiver.flags)
        if receiver.answer is True:
            for identity in held:
                self.step((name, identity), Transition.ACKNOWLEDGE)
        assert nothing is (not self.having(DELIVERED, name))
        receiver.forget()

    @rule(pick=PICKS, name=NAMES, transacted=st.booleans())
    def acknowledge(self, pick: int, name: str, transacted: bool) -> None:
        held = self.having(DELIVERED, name)
        if not held:
            with pytest.raises(ClaimLost):
                self.topic.acknowledge("ID:unknown", name)
            return
        identity = held[pick % len(held)]
        if transacted:
            with self.channels.transaction() as transaction:
                self.topic.acknowledge(identity, name, transaction)
        else:
            self.topic.acknowledge(identity, name)
        self.topic.acknowledge(identity, name)  # once more is ignored
        self.step((name, identity), Transition.ACKNOWLEDGE)

    @invariant()
    def a_message_is_delivered_while_somebody_holds_it(self) -> None:
        held = self.messages(DELIVERED)
        assert {message.message_id for message in self.topic.messages(DELIVERED)} == held
        for identity in held:
            holders = {name for name in self.known if identity in self.having(DELIVERED, name)}
            assert self.topic.receivers_of(identity) == holders

    @invariant()
    def a_message_is_new_while_it_only_waits(self) -> None:
        held, waiting = self.messages(DELIVERED), self.messages(NEW)
        assert {message.message_id for message in self.topic.messages(NEW)} == waiting - held
        assert {message.message_id for message in self.topic.browse()} == waiting | held


def _case(machine: type[RuleBasedStateMachine], kind: str, examples: int) -> type:
    """The machine on a provider, as a test case."""
    case: type = type(f"{machine.__name__}On{kind.title()}", (machine,), {"kind": kind}).TestCase  # type: ignore[attr-defined]
    case.settings = settings(  # type: ignore[attr-defined]
        max_examples=examples,
        stateful_step_count=40,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    return case


TestQueueInMemory = _case(QueueMachine, "memory", 60)
TestQueueInDropbox = _case(QueueMachine, "dropbox", 25)
TestTopicInMemory = _case(TopicMachine, "memory", 40)
TestTopicInDropbox = _case(TopicMachine, "dropbox", 25)
