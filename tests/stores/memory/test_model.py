"""Any sequence of operations leaves what a list of messages by state would be left with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from connector.errors import UnknownDestination
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import NON_PERSISTENT, Message
from connector.messaging.settlement import Settlement
from connector.messaging.subscription import TopicSubscription
from connector.stores.engine.connection import LocalConnection
from connector.stores.memory.provider import MemoryProvider

QUEUES = [parse_destination(name) for name in ("orders", "bills")]
PRICES = parse_destination("topic://prices")
SUBSCRIBED = TopicSubscription(PRICES, "all", durable=True, shared=True)
SOURCES: list[Any] = [*QUEUES, SUBSCRIBED]
BIG = 1 << 30

clients = st.integers(0, 1)
sources = st.sampled_from(range(len(SOURCES)))
targets = st.sampled_from([*QUEUES, PRICES])


@dataclass(eq=False)
class Modelled:
    """One message in one source: where it is in the order, how often delivered, who has it."""

    body: str
    priority: int
    number: int
    source: int
    deliveries: int = 0
    claim: Any = None
    owner: int | None = None

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, self.number


class MemoryMachine(RuleBasedStateMachine):
    """Two clients over one provider, beside a model of it."""

    @initialize()
    def open(self) -> None:
        self.provider = MemoryProvider()
        self.connections = [self.provider.connect() for _ in range(2)]
        self.looking = self.provider.connect()
        self.pollers = [[c.poller(source) for source in SOURCES] for c in self.connections]
        self.selecting = self.connections[0].poller(QUEUES[0], selector="JMSPriority > 4")
        self.messages: list[Modelled] = []
        self.prepared: list[tuple[int, Any, str, int, int]] = []
        self.numbers = 0
        self.sequence = 0

    def teardown(self) -> None:
        if hasattr(self, "provider"):
            self.provider.close()

    def _next(self) -> int:
        self.numbers += 1
        return self.numbers

    def _message(self, priority: int) -> tuple[Message, str, int]:
        number = self._next()
        body = f"{number}"
        return Message(body.encode(), delivery_mode=NON_PERSISTENT, priority=priority), body, number

    def _arrive(self, to: Destination, body: str, priority: int, number: int) -> None:
        source = QUEUES.index(to) if to.is_queue else len(QUEUES)
        self.messages.append(Modelled(body, priority, number, source))

    @rule(client=clients, to=targets, priorities=st.lists(st.integers(0, 9), max_size=3))
    def send(self, client: int, to: Destination, priorities: list[int]) -> None:
        made = [(*self._message(priority), priority) for priority in priorities]
        self.connections[client].send(to, [message for message, _, _, _ in made])
        for _, body, number, priority in made:
            self._arrive(to, body, priority, number)

    @rule(client=clients, to=targets, priority=st.integers(0, 9))
    def prepare(self, client: int, to: Destination, priority: int) -> None:
        message, body, number = self._message(priority)
        prepared = self.connections[client].access().open().prepare(to, message, body)
        self.prepared.append((client, prepared, body, priority, number))

    @rule(client=clients, source=sources, selecting=st.booleans())
    def take(self, client: int, source: int, selecting: bool) -> None:
        poller = self.pollers[client][source]
        if selecting:
            client, source, poller = 0, 0, self.selecting
        claim = poller.take(1, self.sequence)
        self.sequence += 1
        waiting = [
            one
            for one in self.messages
            if one.source == source and one.owner is None and (one.priority > 4 or not selecting)
        ]
        if not waiting:
            assert claim is None
            return
        expected = min(waiting, key=lambda one: one.order)
        assert claim is not None
        assert claim.delivery_count == expected.deliveries
        loaded = self.connections[client].access().open().load(claim.reference, BIG)
        assert (loaded.body.decode(), loaded.delivery_count) == (expected.body, expected.deliveries + 1)
        expected.claim, expected.owner = claim, client

    def _owned(self, client: int, data: st.DataObject) -> list[Modelled]:
        owned = [one for one in self.messages if one.owner == client]
        return data.draw(st.lists(st.sampled_from(owned), unique_by=id)) if owned else []

    @rule(client=clients, data=st.data(), sent=st.integers(0, 3), dropped=st.integers(0, 3))
    def settle(self, client: int, data: st.DataObject, sent: int, dropped: int) -> None:
        """Claims acknowledged, copied or returned, prepared messages sent or dropped, in one settlement."""
        settlements = []
        changes: list[tuple[Modelled, str]] = []
        for one in self._owned(client, data):
            fate = data.draw(st.sampled_from(["acknowledge", "copy", "return"]))
            changes.append((one, fate))
            if fate == "return":
                settlements.append(Settlement(one.claim, give_back=True, delivery_count=one.deliveries + 1))
            else:
                settlements.append(Settlement(one.claim, copy_to=QUEUES[1] if fate == "copy" else None))
        own = [entry for entry in self.prepared if entry[0] == client]
        sends, discards = own[:sent], own[sent : sent + dropped]
        self.connections[client].settle(
            settlements, [e[1] for e in sends], [e[1] for e in discards], fenced=True
        )
        for entry in sends + discards:
            self.prepared.remove(entry)
        for _, prepared, body, priority, number in sends:
            self._arrive(prepared.destination, body, priority, number)
        for one, fate in changes:
            one.claim = one.owner = None
            if fate == "return":
                one.deliveries += 1
                continue
            self.messages.remove(one)
            if fate == "copy":
                self._arrive(QUEUES[1], one.body, one.priority, one.number)

    @rule(client=clients, abandoned=st.booleans(), look=st.booleans())
    def die(self, client: int, abandoned: bool, look: bool) -> None:
        """A client ends with all it has; another gives its claims back, or only forgets it."""
        connection = self.connections[client]
        (connection.abandon if abandoned else connection.close)()
        held = sorted(
            (one for one in self.messages if one.owner == client), key=lambda one: one.claim.sequence
        )
        found = list(self.looking.leftovers(None, at_start=True))
        assert [one.client_id for one in found] == [connection.client_id] * (abandoned or bool(held))
        for leftover in found:
            assert [claim.sequence for claim in leftover.claims] == [one.claim.sequence for one in held]
            if look:
                counts = [Settlement(c, give_back=True, delivery_count=7) for c in leftover.claims]
                self.looking.settle(counts)
            leftover.forget()
        for one in held:
            one.deliveries = 7 if look else one.deliveries + 1
            one.claim = one.owner = None
        self.prepared = [entry for entry in self.prepared if entry[0] != client]
        self.connections[client] = self.provider.connect()
        self.pollers[client] = [self.connections[client].poller(source) for source in SOURCES]
        if client == 0:
            self.selecting = self.connections[0].poller(QUEUES[0], selector="JMSPriority > 4")

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def settle_late(self, data: st.DataObject) -> None:
        """Whoever settles a second time changes nothing."""
        one = data.draw(st.sampled_from(self.messages))
        if one.owner is None:
            return
        connection = self.connections[one.owner]
        late = Settlement(one.claim)
        connection.settle([Settlement(one.claim, give_back=True, delivery_count=one.deliveries)])
        one.claim = one.owner = None
        connection.settle([late, late])

    @invariant()
    def all_is_seen_in_the_order_of_taking(self) -> None:
        if not hasattr(self, "provider"):
            return
        for number, queue in enumerate(QUEUES):
            expected = [
                one.body for one in sorted(self.messages, key=lambda one: one.order) if one.source == number
            ]
            assert self._bodies(self.looking, queue) == expected
        (subscription,) = self.looking.subscriptions()
        held = [one.owner is not None for one in self.messages if one.source == len(QUEUES)]
        assert (subscription.waiting, subscription.in_progress) == (held.count(False), held.count(True))

    @staticmethod
    def _bodies(connection: LocalConnection, queue: Destination) -> list[str]:
        try:
            return [message.body.decode() for message in connection.browse(queue)]
        except UnknownDestination:
            return []


MemoryMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestMemoryMachine = MemoryMachine.TestCase
