"""Random operations on a provider, beside a model of it: lists of messages by place.

:func:`check_provider` is for local providers, with the capabilities ``takeover`` and ``shows_all``. It runs
random operations of two clients on the provider and on the model. After each operation it compares what the
provider shows with what the model holds. Operations that need a capability which the provider lacks do
nothing. A failure prints the operations, and how to run them again. The module needs the extra ``dev``
(pytest and hypothesis)::

    def test_shelf(tmp_path):
        numbers = itertools.count()

        @contextmanager
        def shelf():
            yield ShelfProvider(tmp_path / str(next(numbers)))

        check_provider(ProviderUnderTest(shelf), examples=20, steps=30)
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from connector.errors import ClaimLost, ConnectorError, LotError, SubscriptionError, UnknownDestination
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.lot import Lot
from connector.messaging.message import PERSISTENT, Message
from connector.messaging.polling import Poller
from connector.messaging.provider import Connection, Provider
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription

ORDERS = parse_destination("queue://orders")
BILLS = parse_destination("queue://bills")
WORKING = parse_destination("queue://working")
EXPIRED = parse_destination("queue://orders~EXPIRED")
PRICES = parse_destination("topic://prices")
QUEUES: Final = (ORDERS, BILLS, WORKING)

ALL = TopicSubscription(PRICES, "all", durable=True, shared=True)
CHEAP = TopicSubscription(PRICES, "cheap", durable=True, shared=True, selector="JMSPriority < 5")
URGENT: Final = "JMSPriority > 4"
LOTS: Final = ("to-lake", "to-mart")

Source = Destination | TopicSubscription

_NO_LIMIT: Final = 1 << 30
_EXPIRED_PRIORITY: Final = 9
"""Messages that are past their expiration have the best place. No other message has this priority."""
_NEVER: Final = 1 << 50
"""A time in milliseconds since 1970, at which no test runs any more."""
_MOMENT: Final = 20
"""Milliseconds that a message is delayed until it is awaited."""


_FATES: Final = ("acknowledge", "copy", "publish", "return", "later", "stay", "group")
_FATES_IN_A_LOT: Final = ("acknowledge", "copy", "publish", "return", "later")


@dataclass(frozen=True, slots=True)
class ProviderUnderTest:
    """How a provider is made, and what it promises differently from others.

    Args:
        open: makes an empty provider, which ends with the context.
        delivery_mode: of the messages.
        message_groups: whether a poller by group leaves the groups that another client holds.
        sees_at_once: whether a poller that is kept takes a better message that has just come.
        keeps_expired: whether expired messages are put aside. Otherwise they are removed.
    """

    open: Callable[[], AbstractContextManager[Provider]]
    delivery_mode: int = PERSISTENT
    message_groups: bool = False
    sees_at_once: bool = True
    keeps_expired: bool = True


def check_provider(provider: ProviderUnderTest, *, examples: int, steps: int) -> None:
    """Runs ``examples`` times ``steps`` operations, each time on a new provider.

    The operations are drawn, and are the same in each run. So a failure comes from a change of the provider.
    The operations of a failure are printed as they were. To look for fewer that fail would take minutes.
    """
    some = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),  # of how quick the machine is
        deadline=None,
    )
    machine = type("Machine", (ProviderMachine,), {"tested": provider})
    run_state_machine_as_test(machine, settings=some)


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to be sent."""

    priority: int
    group: str | None
    is_delayed: bool = False


@dataclass(eq=False, slots=True)
class Modelled:
    """One message in one place: its rank, how often it was delivered, and who has it.

    Args:
        place: the queue or subscription that the message is seen in.
        origin: the place that it is given back to.
        owner: the client that has claimed it. None = nobody.
        lot: the name of the lot that has it.
        waits: whether it was left in progress to wait there.
        in_doubt: whether it was in progress when its client died.
    """

    body: str
    draft: Draft
    number: int
    place: Source
    origin: Source
    deliveries: int = 0
    is_delayed: bool = False
    claim: Claim | None = None
    owner: int | None = None
    lot: str = ""
    waits: bool = False
    in_doubt: bool = False

    @property
    def rank(self) -> tuple[int, int]:
        return -self.draft.priority, self.number

    @property
    def is_free(self) -> bool:
        """Whether a poller of its place may take it."""
        return self.is_seen and not self.is_in_progress

    @property
    def is_seen(self) -> bool:
        return not self.is_delayed

    @property
    def is_in_progress(self) -> bool:
        return self.owner is not None or bool(self.lot) or self.waits or self.in_doubt

    def give_back(self, deliveries: int, *, is_delayed: bool = False) -> None:
        self.place, self.deliveries, self.is_delayed = self.origin, deliveries, is_delayed
        self.claim, self.owner, self.lot, self.waits, self.in_doubt = None, None, "", False, False


@dataclass(eq=False, slots=True)
class Client:
    """A connection with the pollers that it keeps."""

    connection: Connection
    pollers: dict[object, Poller] = field(default_factory=dict)
    prepared: list[tuple[Prepared, str, Draft, int]] = field(default_factory=list)


drafts = st.builds(Draft, st.integers(0, 8), st.sampled_from((None, None, "a", "b")), st.booleans())
clients = st.integers(0, 1)
queues = st.sampled_from((ORDERS, BILLS))
targets = st.sampled_from((ORDERS, BILLS, PRICES))
sources = st.sampled_from((ORDERS, BILLS, ALL, CHEAP))
lot_names = st.sampled_from(LOTS)


class ProviderMachine(RuleBasedStateMachine):
    """Runs two clients and an observer on one provider, beside a model of the provider."""

    tested: ClassVar[ProviderUnderTest]

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Modelled] = []
        self.lots: dict[str, tuple[Lot, Connection]] = {}
        self.numbers = itertools.count(1)
        self.cycles = itertools.count(1)
        self.expired = 0

    @initialize()
    def open(self) -> None:
        self.context = self.tested.open()
        self.provider = self.context.__enter__()
        self.able = self.provider.capabilities
        self.looking = self.provider.connect()
        self.clients = [Client(self.provider.connect()) for _ in range(2)]
        self.subscriptions: set[TopicSubscription] = {ALL} if self.able.topics else set()
        self.lot_owners: dict[str, int] = {}
        places: list[Source] = [ORDERS, BILLS, *self.subscriptions]
        for one in places:
            self.looking.poller(one).close()
        for to in (ORDERS, BILLS, PRICES):
            self.send(0, to, [Draft(8, None), Draft(0, "a"), Draft(4, "b"), Draft(5, "a")])

    def teardown(self) -> None:
        if hasattr(self, "context"):
            for one in (*self.clients, Client(self.looking)):
                one.connection.abandon()
            self.context.__exit__(None, None, None)

    # -- the model ---------------------------------------------------------------------------------

    def _waits(self, draft: Draft) -> bool:
        """Whether a message is delayed, which not each provider can do."""
        return draft.is_delayed and self.able.delays

    def _message(self, draft: Draft, due: int = 0) -> tuple[Message, str, int]:
        number = next(self.numbers)
        message = Message(
            f"{number}".encode(),
            delivery_mode=self.tested.delivery_mode,
            priority=draft.priority,
            delivery_time=due or (_NEVER if self._waits(draft) else 0),
        )
        if draft.group is not None:
            message.set_property("JMSXGroupID", draft.group)
        return message, f"{number}", number

    def _arrive(self, to: Destination, body: str, draft: Draft, number: int, *, is_delayed: bool) -> None:
        """A message comes to a queue, or to the subscriptions of a topic."""
        places: Iterable[Source] = [to] if to.is_queue else self.subscriptions
        for place in places:
            if place != CHEAP or draft.priority < 5:
                self.messages.append(Modelled(body, draft, number, place, place, is_delayed=is_delayed))

    def _at(self, place: Source) -> list[Modelled]:
        """The messages of a place, in the order of taking."""
        return sorted((one for one in self.messages if one.place == place), key=lambda one: one.rank)

    def _has_work(self, client: int) -> bool:
        """Whether a client has claims, or messages that it has prepared."""
        return bool(self._owned(client) or self.clients[client].prepared)

    def _owned(self, client: int) -> list[Modelled]:
        return [one for one in self.messages if one.owner == client]

    def _free(
        self, client: int, source: Source, *, is_urgent: bool = False, by_group: bool = False
    ) -> list[Modelled]:
        """The messages that a poller of a client may take."""
        held = {
            one.draft.group
            for one in self.messages
            if one.origin == source
            and (one.lot or one.waits or (one.owner is not None and one.owner != client))
        }
        return [
            one
            for one in self._at(source)
            if one.is_free
            and (one.draft.priority > 4 or not is_urgent)
            and (one.draft.group not in held - {None} or not (by_group and self.tested.message_groups))
        ]

    def _accept(self, client: int, claims: Sequence[Claim], among: list[Modelled], *, in_order: bool) -> None:
        """The claims of a client have to be the next of these messages."""
        access = self.clients[client].connection.access().open()
        for claim in claims:
            loaded = access.load(claim.reference, _NO_LIMIT)
            body = loaded.body.decode()
            found = [one for one in among if one.body == body and one.deliveries == claim.delivery_count]
            assert found, f"{body} was claimed with {claim.delivery_count}, and is none of {among}"
            assert not in_order or found[0].rank == among[0].rank
            assert loaded.delivery_count == claim.delivery_count + 1
            assert loaded.properties.get("JMSXGroupID") == claim.group_id == found[0].draft.group
            among.remove(found[0])
            found[0].claim, found[0].owner = claim, client

    # -- send --------------------------------------------------------------------------------------

    @rule(client=clients, to=targets, sent=st.lists(drafts, max_size=3))
    def send(self, client: int, to: Destination, sent: list[Draft]) -> None:
        if not self.able.topics and not to.is_queue:
            return
        made = [(draft, *self._message(draft)) for draft in sent]
        self.clients[client].connection.send(to, [message for _, message, _, _ in made])
        for draft, _, body, number in made:
            self._arrive(to, body, draft, number, is_delayed=self._waits(draft))

    @rule(client=clients, to=targets, sent=st.lists(drafts, min_size=1, max_size=2))
    def send_for_a_moment_later(self, client: int, to: Destination, sent: list[Draft]) -> None:
        """A message that was delayed has the place that it would have without the delay."""
        if not self.able.delays or (not self.able.topics and not to.is_queue):
            return
        access = self.clients[client].connection.access().open()
        due = access.now() + _MOMENT
        made = [(draft, *self._message(draft, due)) for draft in sent]
        self.clients[client].connection.send(to, [message for _, message, _, _ in made])
        while access.now() < due:
            time.sleep(0.002)
        for draft, _, body, number in made:
            self._arrive(to, body, draft, number, is_delayed=False)
        places: Iterable[Source] = [to] if to.is_queue else tuple(self.subscriptions)
        for place in places:  # each take shows messages whose delivery time has come
            self.take(client, place, 1, is_urgent=False, by_group=False, moves=False, is_new=True)

    @rule(client=clients, to=targets, draft=drafts)
    def prepare(self, client: int, to: Destination, draft: Draft) -> None:
        if not self.able.topics and not to.is_queue:
            return
        message, body, number = self._message(draft)
        access = self.clients[client].connection.access().open()
        prepared = access.prepare(to, message, body)
        access.sync()
        self.clients[client].prepared.append((prepared, body, draft, number))

    # -- take --------------------------------------------------------------------------------------

    @rule(
        client=clients,
        source=sources,
        most=st.integers(1, 3),
        is_urgent=st.booleans(),
        by_group=st.booleans(),
        moves=st.booleans(),
        is_new=st.booleans(),
    )
    def take(
        self,
        client: int,
        source: Source,
        most: int,
        *,
        is_urgent: bool,
        by_group: bool,
        moves: bool,
        is_new: bool,
    ) -> None:
        """Some messages are claimed, with a selector, by group, or into the in-progress destination."""
        is_queue = isinstance(source, Destination)
        if not is_queue and source not in self.subscriptions:
            return
        in_progress = WORKING if moves and is_queue and self.able.in_progress else None
        selector = URGENT if is_urgent and is_queue and self.able.selectors else ""
        free = self._free(client, source, is_urgent=bool(selector), by_group=by_group)
        expected = min(len(free), most)
        with self._poller(client, source, in_progress, selector, by_group=by_group, is_new=is_new) as poller:
            claims = poller.claim(next(self.cycles), range(most))
        assert len(claims) == expected
        assert all(claim.in_progress is (in_progress is not None) for claim in claims)
        self._accept(client, claims, free, in_order=is_new or self.tested.sees_at_once)
        for one in self._owned(client):
            if one.claim in claims and in_progress is not None:
                one.place = in_progress

    @contextmanager
    def _poller(
        self,
        client: int,
        source: Source,
        in_progress: Destination | None,
        selector: str,
        *,
        by_group: bool,
        is_new: bool,
    ) -> Iterator[Poller]:
        """A poller for one poll, or one that the client keeps."""
        one = self.clients[client]
        key = source, in_progress, selector, by_group
        poller = None if is_new else one.pollers.get(key)
        if poller is None:
            poller = one.connection.poller(source, in_progress, selector=selector, by_group=by_group)
        if is_new or source == CHEAP:  # a subscription that has a consumer cannot be removed
            yield poller
            poller.close()
        else:
            one.pollers[key] = poller
            yield poller

    @rule(client=clients, source=queues)
    def pick(self, client: int, source: Destination) -> None:
        """An operator takes the messages of even priority."""
        picker = self.clients[client].connection.picker(source, lambda message: message.priority % 2 == 0)
        claims = picker.claim(next(self.cycles), range(100))
        picker.close()
        wanted = [one for one in self._free(client, source) if one.draft.priority % 2 == 0]
        assert len(claims) == len(wanted)
        self._accept(client, claims, wanted, in_order=True)

    @rule(client=clients)
    def take_behind_an_expired_message(self, client: int) -> None:
        """An expired message is put aside, and the next is taken."""
        connection = self.clients[client].connection
        old = Message(
            b"old", delivery_mode=self.tested.delivery_mode, priority=_EXPIRED_PRIORITY, expiration=1
        )
        connection.send(ORDERS, [old])
        poller = connection.poller(ORDERS)
        claims = poller.claim(next(self.cycles), range(1))
        assert poller.expired == 1
        poller.close()
        self.expired += self.tested.keeps_expired
        free = self._free(client, ORDERS)
        assert len(claims) == min(len(free), 1)
        self._accept(client, claims, free, in_order=True)

    @precondition(lambda self: any(one.waits or one.in_doubt for one in self.messages))
    @rule(client=clients)
    def adopt(self, client: int) -> None:
        """All that is in progress without an owner is claimed."""
        connection = self.clients[client].connection
        unowned = [one for one in self._at(WORKING) if one.waits or one.in_doubt]
        found = connection.find_unowned(WORKING)
        for one in unowned:
            one.deliveries += one.in_doubt
            one.waits = one.in_doubt = False
        adopted = [connection.adopt(claim, next(self.cycles), 0) for claim in found]
        claims = [claim for claim in adopted if claim is not None]
        assert len(claims) == len(found) == len(unowned)
        assert all(claim.in_progress and not claim.waits for claim in claims)
        self._accept(client, claims, unowned, in_order=False)

    # -- settle ------------------------------------------------------------------------------------

    def _settlement(self, one: Modelled, fate: str) -> Settlement:
        """Returns the settlement of a claim, and changes the model accordingly."""
        claim = one.claim
        assert claim is not None
        if (fate == "later" and not self.able.retries_later) or (fate == "publish" and not self.able.topics):
            fate = "return"
        if fate in ("return", "later", "stay"):
            due = _NEVER if fate == "later" else 0
            one.deliveries += 1
            settlement = Settlement(
                claim, give_back=True, delivery_count=one.deliveries, due=due, stay=fate == "stay"
            )
            if fate == "stay" and claim.in_progress:
                one.claim, one.owner, one.waits = None, None, True
            else:
                one.give_back(one.deliveries, is_delayed=bool(due))
            return settlement
        self.messages.remove(one)
        copy_to = {"copy": BILLS, "publish": PRICES}.get(fate)
        if copy_to is not None:
            self._arrive(copy_to, one.body, one.draft, one.number, is_delayed=False)
        return Settlement(claim, copy_to)

    @precondition(lambda self: self._has_work(0) or self._has_work(1))
    @rule(client=clients, data=st.data(), sent=st.integers(0, 3), dropped=st.integers(0, 3))
    def settle(self, client: int, data: st.DataObject, sent: int, dropped: int) -> None:
        """Claims have their fates, prepared messages are sent or dropped, in one settlement."""
        client = client if self._has_work(client) else 1 - client
        one = self.clients[client]
        owned = self._owned(client)
        chosen = data.draw(st.lists(st.sampled_from(owned), unique_by=id)) if owned else []
        settlements: list[Settlement | GroupSettlement] = []
        group: list[Claim] = []
        for message in chosen:
            fate = data.draw(st.sampled_from(_FATES))
            if fate == "group" and message.claim is not None:
                group.append(message.claim)
                self.messages.remove(message)
                self._arrive(BILLS, message.body, message.draft, message.number, is_delayed=False)
            else:
                settlements.append(self._settlement(message, fate))
        if group:
            settlements.append(GroupSettlement(group, BILLS))
        sends, discards = one.prepared[:sent], one.prepared[sent : sent + dropped]
        del one.prepared[: sent + dropped]
        one.connection.settle(
            settlements, [each[0] for each in sends], [each[0] for each in discards], fenced=True
        )
        for prepared, body, draft, number in sends:
            self._arrive(prepared.destination, body, draft, number, is_delayed=self._waits(draft))

    @precondition(lambda self: any(one.owner is not None for one in self.messages))
    @rule(data=st.data())
    def settle_twice(self, data: st.DataObject) -> None:
        """Who settles a second time is refused, and changes nothing."""
        one = data.draw(st.sampled_from([one for one in self.messages if one.owner is not None]))
        assert one.owner is not None
        connection = self.clients[one.owner].connection
        assert one.claim is not None
        late = Settlement(one.claim)
        connection.settle([self._settlement(one, "return")])
        with pytest.raises(ClaimLost):
            connection.settle([late], fenced=True)

    # -- subscriptions -----------------------------------------------------------------------------

    @precondition(lambda self: self.able.topics and CHEAP not in self.subscriptions)
    @rule(client=clients)
    def subscribe(self, client: int) -> None:
        self.clients[client].connection.poller(CHEAP).close()
        self.subscriptions.add(CHEAP)

    @precondition(lambda self: self.able.topics)
    @rule(client=clients)
    def unsubscribe(self, client: int) -> None:
        """A subscription goes with its messages. One that is unknown, or has claims, is refused."""
        connection = self.clients[client].connection
        kept = self._at(CHEAP)
        if CHEAP not in self.subscriptions or any(one.is_in_progress for one in kept):
            with pytest.raises(SubscriptionError):
                connection.unsubscribe("cheap")
            return
        removed = connection.unsubscribe("cheap")
        self._compare_subscription(removed)
        self.subscriptions.discard(CHEAP)
        for one in kept:
            self.messages.remove(one)

    # -- lots --------------------------------------------------------------------------------------

    def _in_lot(self, name: str) -> list[Modelled]:
        return sorted((one for one in self.messages if one.lot == name), key=lambda one: one.rank)

    @precondition(lambda self: self.able.lots)
    @rule(
        client=clients,
        queue=queues,
        name=lot_names,
        limit=st.integers(1, 3),
        is_urgent=st.booleans(),
        fates=st.none() | st.lists(st.sampled_from(_FATES_IN_A_LOT), min_size=3, max_size=3),
    )
    def claim_lot(
        self,
        client: int,
        queue: Destination,
        name: str,
        limit: int,
        *,
        is_urgent: bool,
        fates: list[str] | None,
    ) -> None:
        """A name has one owner, and the same lot until the lot is settled."""
        connection = self.clients[client].connection
        is_urgent = is_urgent and self.able.selectors
        selector = URGENT if is_urgent else ""
        had = self._in_lot(name)
        is_of_another = bool(had) and had[0].origin != queue
        if is_of_another and name not in self.lot_owners:
            return  # whether a client that is refused owns the name is not promised
        is_refused = self.lot_owners.setdefault(name, client) != client
        if is_refused or is_of_another:
            with pytest.raises(LotError):
                connection.lots.claim(queue, name, limit, selector=selector)
            return
        lot = connection.lots.claim(queue, name, limit, selector=selector)
        expected = had or self._free(client, queue, is_urgent=is_urgent)[:limit]
        if not expected:
            assert lot is None
            return
        assert lot is not None
        before, _ = self.lots.get(name, (None, None))
        assert before is None or lot.sequence_id == before.sequence_id
        assert before is None or (lot.number == before.number if had else lot.number > before.number)
        assert [message.body.decode() for message in lot.read()] == [one.body for one in expected]
        assert [claim.delivery_count for claim in lot.claims] == [one.deliveries for one in expected]
        self.lots[name] = lot, connection
        for one, claim in zip(expected, lot.claims, strict=True):
            one.lot, one.claim = name, claim
        if fates is not None:
            self._settle_lot(name, fates)

    @precondition(lambda self: any(one.lot for one in self.messages))
    @rule(name=lot_names, fates=st.lists(st.sampled_from(_FATES_IN_A_LOT), min_size=3, max_size=3))
    def settle_lot(self, name: str, fates: list[str]) -> None:
        """A lot that was claimed some time ago is settled, unless its owner has ended."""
        if not self._in_lot(name) or name not in self.lot_owners:
            return
        if self.lots[name][1] is self.clients[self.lot_owners[name]].connection:
            self._settle_lot(name, fates)

    def _settle_lot(self, name: str, fates: list[str]) -> None:
        """Each message of a lot has its fate, in one settlement."""
        lot, _ = self.lots[name]
        held = self._in_lot(name)
        lot.settle([self._settlement(one, fate) for one, fate in zip(held, fates, strict=False)])
        with pytest.raises(LotError):
            lot.read()

    @precondition(lambda self: any(one.lot for one in self.messages))
    @rule(client=clients, name=lot_names)
    def give_back_lot(self, client: int, name: str) -> None:
        held = self._in_lot(name)
        connection = self.clients[client].connection
        if not held or self.lot_owners.get(name, client) != client:
            with pytest.raises(LotError):
                connection.lots.give_back(name)
            return
        self.lot_owners[name] = client
        info = connection.lots.give_back(name)
        assert (info.destination, info.name, info.messages) == (held[0].origin, name, len(held))
        for one in held:
            one.give_back(one.deliveries + 1)

    # -- die ---------------------------------------------------------------------------------------

    @precondition(lambda self: self._has_work(0) or self._has_work(1) or self.lot_owners)
    @rule(client=clients, is_abandoned=st.booleans(), is_counted=st.booleans(), leaves=st.booleans())
    def die(self, client: int, *, is_abandoned: bool, is_counted: bool, leaves: bool) -> None:
        """A client ends with all it has. Another gives its claims back, or only forgets the client."""
        if not self._has_work(client) and not self.lot_owners:
            client = 1 - client
        connection = self.clients[client].connection
        held = self._owned(client)
        # an adapter that closes its connection has nothing in progress, so only a crash leaves that
        is_abandoned = is_abandoned or any(one.claim is not None and one.claim.in_progress for one in held)
        (connection.abandon if is_abandoned else connection.close)()
        in_progress = WORKING if self.able.in_progress else None
        found = list(self.looking.leftovers(in_progress, at_start=True))
        assert [one.client_id for one in found] == [connection.client_id] * (is_abandoned or bool(held))
        for leftover in found:
            claims = {(claim.cycle, claim.sequence): claim for claim in leftover.claims}
            assert claims.keys() == {(one.claim.cycle, one.claim.sequence) for one in held if one.claim}
            back = [claim for claim in leftover.claims if is_counted and not claim.in_progress]
            self.looking.settle([Settlement(one, give_back=True, delivery_count=7) for one in back])
            for claim in leftover.claims:
                if claim.in_progress and leaves:
                    self.looking.leave_unowned(claim)
            leftover.forget()
        for one in held:
            if one.claim is not None and one.claim.in_progress:
                one.claim, one.owner, one.in_doubt = None, None, True
            else:
                one.give_back(7 if is_counted else one.deliveries + 1)
        for name, owner in self.lot_owners.items():
            if owner == client and self._in_lot(name):
                lot, _ = self.lots[name]
                with pytest.raises(ConnectorError):
                    lot.settle([Settlement(claim) for claim in lot.claims])
        self.looking.prune(seconds=1.0)
        self.clients[client] = Client(self.provider.connect())
        self.lot_owners = {name: owner for name, owner in self.lot_owners.items() if owner != client}

    # -- look --------------------------------------------------------------------------------------

    @precondition(lambda self: self._at(ORDERS))
    @rule(data=st.data())
    def find(self, data: st.DataObject) -> None:
        """Messages are found by their ids."""
        seen = {message.message_id: message.body for message in self._browse(ORDERS)}
        ids = {one for one in seen if one is not None and data.draw(st.booleans())}
        if seen:
            found = {message.message_id: message.body for message in self.looking.browse(ORDERS, ids=ids)}
            assert found == {one: seen[one] for one in ids}

    @invariant()
    def all_is_seen_in_the_order_of_taking(self) -> None:
        infos = {info.destination: info for info in self.looking.destinations()}
        for queue in QUEUES:
            here = self._at(queue)
            seen = [(message.body.decode(), message.delivery_count) for message in self._browse(queue)]
            assert [body for body, _ in seen] == [one.body for one in here if one.is_seen]
            delayed = [message.body.decode() for message in self._browse(queue, delayed=True)]
            assert sorted(delayed) == sorted(one.body for one in here if one.is_delayed)
            self._compare_queue(infos.get(queue, DestinationInfo(queue)), here)
        assert {info.subscription for info in self.looking.subscriptions()} == self.subscriptions
        for info in self.looking.subscriptions():
            self._compare_subscription(info)

    def _compare_queue(self, info: DestinationInfo, here: list[Modelled]) -> None:
        claimed = [one for one in here if one.is_in_progress]
        delayed = [one for one in here if one.is_delayed]
        assert (info.waiting + info.in_progress, info.delayed) == (len(here) - len(delayed), len(delayed))
        if info.destination != WORKING:  # a directory shows what is in progress there as waiting
            assert info.in_progress == len(claimed)
        assert info.expired == (self.expired if info.destination == ORDERS else 0)
        lots = {one.name: (one.messages, bool(one.owner)) for one in info.lots}
        names = {one.lot for one in here if one.lot}
        assert lots == {name: (len(self._in_lot(name)), name in self.lot_owners) for name in names}

    def _compare_subscription(self, info: SubscriptionInfo) -> None:
        here = self._at(info.subscription)
        claimed = sum(one.is_in_progress for one in here)
        delayed = sum(one.is_delayed for one in here)
        waiting = len(here) - claimed - delayed
        assert (info.waiting, info.in_progress, info.delayed) == (waiting, claimed, delayed)

    def _browse(self, queue: Destination, *, delayed: bool = False) -> list[Message]:
        with suppress(UnknownDestination):
            return list(self.looking.browse(queue, delayed=delayed))
        return []
