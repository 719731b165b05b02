"""A provider that is lent its messages by a broker, to try the contracts above the seam.

All that is claimed under one cycle is one transaction of the broker, and one settlement ends it. A settlement
that leaves something open, or gives something back, first rolls the transaction back. Then it receives what
it needs again, by id.

The broker counts that as a delivery. So the provider notes how many deliveries were begun. All its clients
share the notes, as if they were kept in the :class:`~connector.state.store.StateStore`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakValueDictionary

from connector.errors import (
    CapabilityError,
    ClaimLost,
    ClientIdError,
    DestinationError,
    MalformedData,
    ProviderError,
    SettlementError,
    SubscriptionError,
    UnknownDestination,
)
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.notes import BatchNote, ClientNote, ClientState, WaitingNote
from connector.messaging.provider import Capabilities, Leftover, Poller
from connector.messaging.retention import Pruned, Retention
from connector.messaging.selector import compile_selector
from connector.messaging.settlement import HISTORY, GroupSettlement, Prepared, Settlement, one_by_one
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription
from connector.providers.memory.state import MemoryState
from connector.state.directory import StateDirectory
from connector.state.duplicates import DuplicateWindow
from tests.providers.lent.broker import Broker, BrokerConnection, BrokerError, BrokerSession, Received, Stored

_ID, _TIME, _EXPIRATION = "connector_message_id", "connector_timestamp", "connector_expiration"


@dataclass(frozen=True)
class Note:
    """What settlements have said of a message that was given back.

    Args:
        begun: deliveries.
        count: deliveries that the broker had counted when it was noted. What it counts beyond them was
            begun by a client that has ended without a word.
        properties: that it was given.
    """

    begun: int
    count: int
    properties: dict[str, PropertyValue]


_providers: Final[WeakValueDictionary[int, LentProvider]] = WeakValueDictionary()


class LentProvider:
    """Queues of a broker in this process.

    Args:
        state_directory: for journals, published ids and instance locks.
    """

    capabilities = Capabilities(
        selectors=True, takeover=False, by_value=True, in_progress=False, shows_all=False
    )

    def __init__(self, state_directory: str | os.PathLike[str]) -> None:
        self.broker = Broker()
        self.notes: dict[str, Note] = {}
        """By the broker's message id."""
        self._state = MemoryState(state_directory)
        _providers[id(self)] = self

    def __reduce__(self) -> tuple[Callable[[int], LentProvider], tuple[int]]:
        """What is pickled is a reference, because the broker is in this process."""
        return _find, (id(self),)

    def state(self, application: str) -> LentState:
        found = self._state.of(application)
        return LentState(self.broker, found)

    def connect(
        self, application: str = "", instance: str = "", *, client_id: str = "", origin: str = ""
    ) -> LentConnection:
        connection = self.broker.connect()
        with self.broker.changed:
            holder = self.broker.client_ids.get(client_id)
            if client_id and holder is not None and not holder.ended:
                raise ClientIdError(f"the client id {client_id!r} is in use; choose another client id")
            self.broker.client_ids[client_id] = connection
        published = Path(self.state(application).published) if application else None
        return LentConnection(self, connection, published)

    def check(self) -> bool:
        return True  # a broker in this process is there

    def clients(self) -> list[ClientNote]:
        return []  # a broker does not tell

    def declare_dead(self, client_id: str) -> ClientState | None:
        return None

    def batches(self, in_progress: Destination | None) -> list[BatchNote]:
        return []

    def waiting(self, source: Destination | TopicSubscription) -> WaitingNote:
        found = self.broker.waiting(source.name)
        return WaitingNote(len(found), min((one.message.timestamp / 1000 for one in found), default=None))

    def existing_state(self, application: str) -> LentState:
        return self.state(application)

    def existing(self) -> LentConnection:
        return self.connect()

    def read(self, message: Message) -> Message:
        """A message of the broker as others see it: a copy has the id and the times of its original."""
        found = message.copy(message.body)
        note = self.notes.get(message.message_id or "", Note(0, 0, {}))
        for name, value in note.properties.items():
            found.set_property(name, value)
        found.delivery_count += note.begun - note.count
        if _ID in found.properties:
            found.message_id = str(found.properties[_ID])
            found.timestamp, found.expiration = (int(found.properties[name]) for name in (_TIME, _EXPIRATION))
            _drop(found, (_ID, _TIME, _EXPIRATION))
        return found


@dataclass(frozen=True)
class LentReference:
    """A claimed message by value.

    Args:
        name: of the claim.
        message: with its body.
    """

    name: str
    message: Message

    def __str__(self) -> str:
        return self.name


class LentClaim:
    """See :class:`connector.messaging.claim.Claim`."""

    in_progress = waits = False

    def __init__(
        self, client_id: str, number: tuple[int, int], source: Destination, received: Received, read: Message
    ) -> None:
        self.cycle, self.sequence = number
        self.destination = source
        self.broker_id = received.message.message_id or ""
        self.count = 0
        """Deliveries that the broker counts, with this one."""
        self.reference = LentReference(f"{client_id} {number}", read)
        self.session: BrokerSession | None = None
        """The transaction that it is in; None = it is not claimed any more."""
        self.delivery_count = read.delivery_count - 1
        self.message_id = read.message_id or ""
        self.duplicate_key = f"{source} {self.message_id}"

    @property
    def group_id(self) -> str | None:
        value = self.reference.message.properties.get("JMSXGroupID")
        return value if isinstance(value, str) else None

    def headers(self) -> Message:
        return self.reference.message.copy()


class LentPoller(Poller):
    """See :class:`connector.messaging.provider.Poller`. What has expired is the broker's affair."""

    expired = 0

    def __init__(self, connection: LentConnection, source: Destination, selector: str) -> None:
        self.destination, self.selector = source, selector
        self._connection = connection
        self.closed = False

    def claim(self, cycle: int, numbers: range) -> list[LentClaim]:
        if self.closed:
            raise ProviderError(f"the poller of {self.destination} is closed")
        return self._connection.claim(self, cycle, numbers)

    def close(self) -> None:
        self.closed = True
        with contextlib.suppress(ValueError):
            self._connection.pollers.remove(self)


class LentConnection:
    """See :class:`connector.messaging.provider.Connection`."""

    def __init__(self, provider: LentProvider, broker: BrokerConnection, published: Path | None) -> None:
        self.client_id = broker.id
        self.sent_ids = f"%{broker.id}:%"
        self.pollers: list[LentPoller] = []
        self._provider = provider
        self._broker = broker
        self._published = published
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._claims: dict[BrokerSession, set[LentClaim]] = {}
        self._sessions: dict[int, BrokerSession] = {}
        self._woken = False

    # -- claiming ------------------------------------------------------------------------------------

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: str = "",
        by_group: bool = False,
    ) -> LentPoller:
        self.check()
        if in_progress is not None:
            raise CapabilityError(f"{source} in progress in {in_progress}: a broker keeps what is claimed")
        if not isinstance(source, Destination) or not source.is_queue or source.view:
            raise CapabilityError(f"cannot poll {source}: this provider has whole queues only")
        if selector:
            compile_selector(selector)
        self._provider.broker.waiting(source.name)
        poller = LentPoller(self, source, selector)
        self.pollers.append(poller)
        return poller

    def claim(self, poller: LentPoller, cycle: int, numbers: range) -> list[LentClaim]:
        """Claims into the transaction of the cycle."""
        with self._lock:
            self.check()
            session = self._sessions.get(cycle) or self._begin()
            self._sessions[cycle] = session
            source, claims = poller.destination, []
            received = session.receive(source.name, len(numbers), poller.selector)
            for sequence, one in zip(numbers, received, strict=False):
                read = self._provider.read(one.message)
                claim = LentClaim(self.client_id, (cycle, sequence), source, one, read)
                self._hold(claim, session, one)
                claims.append(claim)
            return claims

    def _begin(self) -> BrokerSession:
        session = self._broker.session()
        self._claims[session] = set()
        return session

    def _hold(self, claim: LentClaim, session: BrokerSession, received: Received) -> None:
        claim.session, claim.count = session, received.message.delivery_count
        self._claims[session].add(claim)

    def _end(self, session: BrokerSession) -> None:
        """A transaction is over, and its claims are none any more."""
        for claim in self._claims.pop(session):
            claim.session = None
        for cycle, other in list(self._sessions.items()):
            if other is session:
                del self._sessions[cycle]
        session.close()

    # -- settling ------------------------------------------------------------------------------------

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        with self._lock:
            if self._broker.ended:
                raise SettlementError("nothing was settled: the connection is closed")
            singles = one_by_one(settlements)
            self._check_held(singles, fenced=fenced)
            taken = [one for one in singles if not one.give_back]
            session = self._together([one.claim for one in taken if self._holds(one.claim)])
            self._check_held(singles, fenced=fenced)
            held = [one for one in singles if self._holds(one.claim)]
            try:
                for prepared in itertools.chain(sends, *(one.sends for one in held)):
                    session.send(*_prepared(prepared))
                for one in held:
                    if not one.give_back and one.copy_to is not None:
                        session.send(_queue(one.copy_to), _copied(one))
            except (BrokerError, CapabilityError, DestinationError) as error:
                self._apart([session], self._claims[session])
                raise SettlementError(f"nothing was settled: {error}") from error
            self._commit(session)
            if self._published is not None:
                self._remember([one.published for one in held if one.published is not None])
            self._give_back({one.claim: one for one in held if one.give_back})

    def _holds(self, claim: Claim) -> bool:
        return isinstance(claim, LentClaim) and claim.session in self._claims

    def _check_held(self, settlements: Sequence[Settlement], *, fenced: bool) -> None:
        lost = [one.claim.message_id for one in settlements if not self._holds(one.claim)]
        if lost and (fenced or len(settlements) == 1):
            raise ClaimLost(f"nothing was settled: this client does not hold {', '.join(lost)} any more")

    def _together(self, claims: Sequence[Any]) -> BrokerSession:
        """A transaction that has these claims and nothing else."""
        if not claims:
            return self._begin()
        sessions = {claim.session: None for claim in claims}
        first = claims[0].session
        if len(sessions) == 1 and len(self._claims[first]) == len(claims):
            return first  # type: ignore[no-any-return]  # the claims are ours
        return self._apart(sessions, claims)

    def _apart(self, sessions: Iterable[BrokerSession], together: Iterable[LentClaim]) -> BrokerSession:
        """Rolls transactions back, and receives their messages again: some together, each other one alone.

        A claim is lost where a neighbour was quicker.
        """
        chosen, found = set(together), [(session, list(self._claims[session])) for session in sessions]
        for session, claims in found:
            for claim in claims:
                self._note(claim, claim.delivery_count, {})
            self._end(session)
        begun = self._begin()
        for claim in (claim for _, claims in found for claim in claims):
            session = begun if claim in chosen else self._begin()
            again = session.receive(claim.destination.name, 1, f"JMSMessageID = '{claim.broker_id}'")
            if again:
                self._hold(claim, session, again[0])
            elif session is not begun:
                self._end(session)
        return begun

    def _note(self, claim: LentClaim, begun: int, properties: dict[str, PropertyValue]) -> None:
        """Notes what was begun, before a rollback counts one delivery more."""
        before = self._provider.notes.get(claim.broker_id, Note(0, 0, {}))
        self._provider.notes[claim.broker_id] = Note(begun, claim.count, before.properties | properties)

    def _commit(self, session: BrokerSession) -> None:
        ids = [claim.broker_id for claim in self._claims[session]]
        try:
            session.commit()
        except BrokerError as error:
            raise ProviderError(f"nobody knows whether it was settled: {error}") from error
        for one in ids:
            self._provider.notes.pop(one, None)
        self._end(session)

    def _give_back(self, settlements: dict[Any, Settlement]) -> None:
        """Rolls back what has these claims alone. Cannot fail: the end of the connection does the same."""
        for session in {claim.session: None for claim in settlements}:
            if any(claim not in settlements for claim in self._claims[session]):
                self._apart([session], ())
        for claim in [claim for claim in settlements if self._holds(claim)]:
            self._note(claim, max(0, settlements[claim].delivery_count), dict(settlements[claim].properties))
        for session in {claim.session: None for claim in settlements if self._holds(claim)}:
            self._end(session)

    def _remember(self, keys: Sequence[str]) -> None:
        """Writes the record that the duplicate window reads."""
        if keys and self._published is not None:
            self._published.mkdir(parents=True, exist_ok=True)
            hidden = self._published / f".{self.client_id}"
            hidden.write_bytes("\n".join(keys).encode("utf-8", "surrogateescape"))
            hidden.rename(self._published / f"{self.client_id}-{next(self._numbers)}")

    # -- sending and looking -------------------------------------------------------------------------

    def send(self, destination: Destination, messages: Iterable[Message]) -> list[str]:
        self.check()
        sent = list(messages)
        session = self._broker.session()
        try:
            stored = [_sendable(message) for message in sent]
            for one in stored:
                session.send(_queue(destination), one)
            session.commit()
        except BrokerError as error:
            raise ProviderError(f"nothing was sent to {destination}: {error}") from error
        finally:
            session.close()
        for message, one in zip(sent, stored, strict=True):
            message.message_id, message.timestamp = one.message_id, one.timestamp
        return [one.message_id or "" for one in stored]

    def browse(
        self, destination: Destination, unreadable: Callable[[Message, str], object] | None = None
    ) -> Iterator[Message]:
        self.check()
        if not destination.is_queue or destination.name not in self._provider.broker.queues:
            raise UnknownDestination(f"there is no {destination}")
        return (self._seen(destination, one) for one in self._provider.broker.waiting(destination.name))

    def _seen(self, destination: Destination, stored: Stored) -> Message:
        message = self._provider.read(stored.message)
        message.destination = str(destination)
        return message

    def names(self) -> list[Destination]:
        self.check()
        return sorted(parse_destination(name) for name in self._provider.broker.queues)

    def destinations(self) -> list[DestinationInfo]:
        broker = self._provider.broker
        return [
            DestinationInfo(one, waiting=len(broker.waiting(one.name)), in_progress=_locked(broker, one.name))
            for one in self.names()
        ]

    def subscriptions(self) -> list[SubscriptionInfo]:
        self.check()
        return []

    def unsubscribe(self, name: str, client_id: str = "") -> SubscriptionInfo:
        self.check()
        raise SubscriptionError(f"there is no subscription {name!r}")

    def temporary(self, kind: str) -> Destination:
        self.check()
        raise CapabilityError("this provider has no temporary destinations")

    def delete_temporary(self, destination: Destination) -> None:
        self.check()
        raise DestinationError(f"{destination} is no temporary destination")

    def prune(self, retentions: Sequence[Retention] = (), *, seconds: float = 0.5) -> Pruned:
        self.check()
        removed: dict[Destination, int] = {}
        until, now = time.monotonic() + seconds, time.time()
        for retention in retentions if self._published is not None else ():
            name, session = retention.destination.name, self._broker.session()
            for stored in self._provider.broker.waiting(name):
                if not retention.is_over(stored.message, stored.message.timestamp / 1000, now):
                    continue
                if session.receive(name, 1, f"JMSMessageID = '{stored.message.message_id}'"):
                    removed[retention.destination] = removed.get(retention.destination, 0) + 1
                if time.monotonic() >= until:
                    session.commit()
                    return Pruned(copies=removed, is_done=False)
            session.commit()
            session.close()
        return Pruned(copies=removed)

    # -- waiting, recovery, end ----------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        broker, until = self._provider.broker, time.monotonic() + seconds
        with broker.changed:
            while not (self._woken or self._broker.ended or self._has_news()):
                rest = until - time.monotonic()
                if rest <= 0:
                    return
                broker.changed.wait(rest)
            self._woken = False

    def _has_news(self) -> bool:
        return any(self._provider.broker.waiting(one.destination.name, one.selector) for one in self.pollers)

    def waiter(self) -> None:
        self.check()

    def wake(self) -> None:
        with self._provider.broker.changed:
            self._woken = True
            self._provider.broker.changed.notify_all()

    def check(self) -> None:
        if self._broker.ended:
            raise ProviderError("the connection is closed")

    def access(self) -> LentAccess:
        self.check()
        return LentAccess()

    def adopt(self, claim: Claim, cycle: int, sequence: int) -> Claim | None:
        self.check()
        return None

    def leave_unowned(self, claim: Claim) -> None:
        self.check()

    def leftovers(self, in_progress: Destination | None, *, at_start: bool) -> Iterator[Leftover]:
        self.check()
        return iter(())

    def unowned(self, in_progress: Destination) -> list[Claim]:
        self.check()
        return []

    def close(self) -> None:
        with self._lock:
            self._broker.close()
            self._claims.clear()
            self.wake()

    abandon = close


class LentState:
    """See :class:`connector.state.store.StateStore`: a directory, and what the broker knows of its clients.

    Args:
        broker: knows which clients have ended.
        directory: has all else.
    """

    def __init__(self, broker: Broker, directory: StateDirectory) -> None:
        self._broker = broker
        self._directory = directory
        self.published = directory.published
        self.instance, self.instances = directory.instance, directory.instances
        self.journals = directory.journals

    def window(self, client_id: str, size: int) -> LentWindow:
        return LentWindow(self._broker, self._directory.window(client_id, size))


class LentWindow:
    """See :class:`connector.state.store.PublishedIds`. A client that has ended has nothing in flight."""

    def __init__(self, broker: Broker, window: DuplicateWindow) -> None:
        self._broker = broker
        self._window = window
        self.add, self.release = window.add, window.release

    def __contains__(self, key: str) -> bool:
        return key in self._window

    def reserve(self, keys: Sequence[str], held: Sequence[str] = ()) -> set[str]:
        for connection in self._broker.connections:
            if connection.ended:
                self._window.release(connection.id)
        return self._window.reserve(keys, held)


class LentAccess:
    """See :class:`connector.messaging.access.MessageAccess`; also its own recipe. It needs no broker."""

    def open(self) -> LentAccess:
        return self

    def check(self) -> None:
        """Whoever has the message needs nothing else."""

    def load(self, reference: LentReference, max_body: int) -> Message:
        body = reference.message.body
        if len(body) > max_body:
            raise MalformedData(f"the body has {len(body)} bytes; allowed are {max_body} bytes")
        return reference.message.copy(body)

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        _queue(destination)
        values = asdict(_sendable(message))
        return Prepared(json.dumps(values | {"body": message.body.decode("latin-1")}), destination)

    def discard(self, prepared: Prepared) -> None:
        """Nothing is kept."""

    def write(self) -> None:
        """Nothing is kept."""

    def sync(self) -> None:
        """Nothing is kept."""


def _find(key: int) -> LentProvider:
    return _providers[key]


def _queue(destination: Destination) -> str:
    """The name of a queue that messages can be sent to."""
    if not destination.is_queue:
        raise CapabilityError(f"cannot send to {destination}: this provider has no topics")
    if destination.view:
        raise DestinationError(f"cannot send to {destination}: it is a part of {destination.base}")
    return destination.name


def _sendable(message: Message) -> Message:
    message.check()
    found = message.copy(message.body)
    found.delivery_count, found.destination, found.message_id = 1, None, None
    _drop(found, ("JMSXDeliveryCount",))
    return found


def _prepared(prepared: Prepared) -> tuple[str, Message]:
    values = json.loads(prepared.handle)
    return _queue(prepared.destination), Message(**values | {"body": values["body"].encode("latin-1")})


def _copied(settlement: Settlement) -> Message:
    """The copy of a claimed message, with the id and the times that it has lost."""
    message = settlement.claim.reference.message
    copy = _sendable(message)
    _drop(copy, HISTORY)
    for name, value in settlement.properties.items():
        copy.set_property(name, value)
    for name, value in (
        (_ID, message.message_id),
        (_TIME, message.timestamp),
        (_EXPIRATION, message.expiration),
    ):
        copy.set_property(name, value)
    copy.expiration = 0
    return copy


def _drop(message: Message, names: Iterable[str]) -> None:
    for name in names:
        message.properties.pop(name, None)
        message.property_types.pop(name, None)


def _locked(broker: Broker, queue: str) -> int:
    return sum(stored.session is not None for stored in broker.queues[queue])
