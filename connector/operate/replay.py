"""Replay, move and discard: an operator moves messages of a queue, after a preview.

What a preview has counted is what is moved, and nothing else. So a replayed event that fails again is not
replayed twice. A run that was killed left each message where it was, or has moved it. The next run moves the
rest.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from connector.core.takeover import try_take_over
from connector.errors import ConnectorError, DestinationError, SettlementError, UnknownDestination
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination, known_destination, parse_destination
from connector.messaging.message import FILE_NAME, Message, PropertyValue
from connector.messaging.notes import OwnerNote, count_owners
from connector.messaging.provider import Connection
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.roles import Settling
from connector.messaging.selector import Selector
from connector.messaging.settlement import HISTORY, Settlement
from connector.operate.errors import group_of, text_of
from connector.operate.lives import DISCARDED, MOVED, REPLAYED
from connector.operate.own_history import OwnHistory
from connector.operate.reasons import ReasonKind
from connector.status import OutcomeKind, timestamp
from connector.text.names import nearest

TRANSACTION: Final = 500
"""Messages of one commit, at most. A broker may take fewer."""
_GONE: Final = "somebody has taken them meanwhile"
NO_OWNERS: Final[Mapping[str, Sequence[OwnerNote]]] = {}
NO_COPY: Final = "no copy"
"""Stands for the destination of messages that end without a copy."""
_UNSETTLED: Final = (OutcomeKind.GIVEN_BACK, OutcomeKind.ROLLED_BACK, OutcomeKind.LATER)
"""The outcomes of events that come again."""
_CONFIRMED: Final = (OutcomeKind.FAILED, OutcomeKind.GIVEN_BACK, OutcomeKind.LATER)
"""The outcomes after which an event goes only to the subscriptions that have not confirmed."""


class UnexpectedNumber(ConnectorError):
    """Not as many messages are meant as the operator expects. Nothing was moved."""


class UnknownKind(ConnectorError):
    """There is no such kind of reasons."""


@dataclass(frozen=True, slots=True)
class MessageChoice:
    """Says which messages of a queue are meant. A message fits if it fits everything that is given.

    Args:
        ids: message ids, or names of files. Empty = any.
        group: of :class:`connector.operate.errors.ErrorGroup`. Empty = any, and so below.
        reason: text that the reason contains, in upper or lower case.
        selector: None = any.
        limit: number of messages, at most. None = no limit.
    """

    ids: frozenset[str] = frozenset()
    group: str = ""
    kind: str = ""
    reason: str = ""
    selector: Selector | None = None
    limit: int | None = None

    def fits(self, message: Message) -> bool:
        """Whether a message is meant."""
        if self.ids and self.ids.isdisjoint((message.message_id, message.properties.get(FILE_NAME))):
            return False
        if self.kind and text_of(message, "connector_kind") != self.kind:
            return False
        if self.reason and self.reason.casefold() not in text_of(message, "connector_reason").casefold():
            return False
        if self.selector is not None and not self.selector.matches(message):
            return False
        return not self.group or group_of(message) == self.group


def make_choice(
    ids: Iterable[str], group: str, kind: str, reason: str, selector: Selector | None, limit: int | None
) -> MessageChoice:
    """Returns a choice as an operator has named it. An id may lack its ``ID:``.

    Raises:
        UnknownKind: there is no such kind.
    """
    kinds = [one.value for one in ReasonKind]
    if kind and kind not in kinds:
        close = nearest(kind, kinds)
        guess = f", did you mean {close}?" if close else f"; there are {', '.join(kinds)}"
        raise UnknownKind(f"there is no {kind!r}{guess}")
    named = frozenset(ids)
    whole = frozenset(one if one.startswith("ID:") else f"ID:{one}" for one in named)
    return MessageChoice(whole | named, group, kind, reason, selector, limit)


def check_target(target: Destination, source: Destination, *, allows_topic: bool) -> None:
    """Checks that messages of a queue can go to a destination.

    Raises:
        DestinationError: they cannot.
    """
    if target.view:
        raise DestinationError(f"{target} shows a part of {target.base}: name {target.base}")
    if not (target.is_queue or allows_topic):
        raise DestinationError(f"{target} is a topic, and all its subscriptions would get the messages")
    if target == source:
        raise DestinationError(f"the messages are in {target} already")


class Target(NamedTuple):
    """Where a message goes.

    Args:
        destination: None = the message ends without a copy.
        subscription: of a topic as the destination, the only one that gets the message. Empty = all.
    """

    destination: Destination | None
    subscription: str = ""

    def __str__(self) -> str:
        if self.destination is None:
            return NO_COPY
        return f"{self.destination} {self.subscription}".rstrip()


class Stays(NamedTuple):
    """A message stays where it is. The reason is a clause about several messages."""

    reason: str


class Order(Protocol):
    """What an operator orders to be done with messages."""

    what: str
    """The participle for answers and the history: ``replayed``."""

    def target(self, message: Message) -> Target | Stays:
        """Returns where a message goes, by its headers and properties."""

    def properties(self, message: Message) -> Mapping[str, PropertyValue]:
        """Returns the properties of :data:`~connector.messaging.settlement.HISTORY` of the copy."""


class Replay(Order):
    """Sends messages back to where they came from. They are processed again as if they were new.

    Subscriptions that have confirmed an event are not called again. The deliveries of a message without an
    outcome, such as one in doubt, go on to be counted.

    Args:
        to: a queue for all messages. None = each goes where it came from.
        own: says whether the history of a message counts. None = it does.
        own_names: whether names of destinations are those of a server.
    """

    what = REPLAYED

    def __init__(
        self,
        source: Destination,
        to: Destination | None = None,
        own: OwnHistory | None = None,
        *,
        own_names: bool = False,
    ) -> None:
        self._own = own
        self._parse = known_destination if own_names else parse_destination
        self._source = source
        self._to = to

    def target(self, message: Message) -> Target | Stays:
        if 0 < message.expiration <= time.time_ns() // 1_000_000:
            return Stays("they have expired, and would expire again")
        if self._to is not None or self._source.view:
            return Target(self._to or self._source.base)
        try:
            origin = self._parse(text_of(message, "connector_origin_destination")).base
        except DestinationError:
            return Stays("their properties do not name where they came from")
        if origin == self._source:
            return Stays("they came from this queue")
        subscription = "" if origin.is_queue else text_of(message, "connector_origin_subscription")
        if not (origin.is_queue or subscription):
            return Stays(f"an earlier version did not note from which subscription of {origin} they came")
        return Target(origin, subscription)

    def properties(self, message: Message) -> Mapping[str, PropertyValue]:
        delivered = message.properties.get("connector_delivered")
        outcome = message.properties.get("connector_outcome", OutcomeKind.FAILED)
        if not delivered or outcome not in _CONFIRMED:
            return {}
        kept: dict[str, PropertyValue] = {"connector_delivered": delivered}
        if self._own is None:
            return kept
        return self._own.name(kept) if self._own.counts(message, str(self._source.base)) else {}


class Move(Order):
    """Moves messages as they are.

    Args:
        to: a queue, or a topic for all its subscriptions.
    """

    what = MOVED

    def __init__(self, to: Destination) -> None:
        self._to = to

    def target(self, message: Message) -> Target:
        return Target(self._to)

    def properties(self, message: Message) -> Mapping[str, PropertyValue]:
        return _history(message)


ArchiveOf = Callable[[Message], Destination | None]
"""Returns the archive for a message: that of its input. None = there is none."""


class Discard(Order):
    """Copies messages to the archive, where nobody repairs them.

    Args:
        archive_of: says where each message goes. Without an archive a message ends without a copy.
        who: the operator.
        why: the reason. Empty = none.
    """

    what = DISCARDED

    def __init__(self, archive_of: ArchiveOf, who: str, why: str = "") -> None:
        self._archive_of = archive_of
        self._added = {
            "connector_outcome": self.what,
            "connector_time": timestamp(),
            "connector_discarded_by": who,
            **({"connector_discarded_reason": why} if why else {}),
        }

    def target(self, message: Message) -> Target:
        return Target(self._archive_of(message))

    def properties(self, message: Message) -> Mapping[str, PropertyValue]:
        return {**_history(message), **self._added}


@dataclass(frozen=True, slots=True)
class Movement:
    """What one commit does to messages, for the history.

    Args:
        what: ``replayed``, ``moved`` or ``discarded``.
        to: where the messages go, in words.
    """

    what: str
    source: Destination
    to: str
    ids: Sequence[str]


Note = Callable[[Movement], object]
"""Called before each commit. After a crash a movement may have been noted that did not happen."""


@dataclass(slots=True)
class ReplayResult:
    """What a preview has found, and what was moved.

    Args:
        matched: number of messages that are meant and can be moved.
        owned: number of messages that are meant and that have an owner. They stay.
        moved: number of messages that were moved. 0 in a preview.
        to: numbers of messages by where they go. In a preview where they would go.
        left: numbers of messages that are meant and stay, by the reason.
    """

    matched: int = 0
    owned: int = 0
    moved: int = 0
    to: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)

    def document(self) -> dict[str, Any]:
        """Returns the document of ``connector replay --json``."""
        found: dict[str, Any] = {"matched": self.matched, "moved": self.moved, "to": dict(self.to)}
        return {**found, "left": dict(self.left)} if self.left else found


class Mover:
    """Carries out an order on some messages of a queue. For one preview and one run.

    Args:
        source: the queue, or a virtual destination.
        choice: which messages are meant.
        order: what is done with them.
    """

    def __init__(self, source: Destination, choice: MessageChoice, order: Order) -> None:
        self.result = ReplayResult()
        self.source = source
        self.order = order
        self.choice = choice
        self.has_group = not choice.group
        """Whether a message of the group is there, whatever else the choice says."""
        self._meant: Counter[int] = Counter()
        """Keys of the messages that are meant and not yet taken."""
        self._ids: dict[int, str] = {}
        """The ids of the messages by their keys."""
        self._rest = 0
        """Number of these messages."""

    def preview(
        self,
        messages: Iterable[Message],
        owners: Mapping[str, Sequence[OwnerNote]] = NO_OWNERS,
        others: int = 0,
    ) -> ReplayResult:
        """Finds the messages that are meant, and moves nothing.

        Args:
            owners: of these messages (:meth:`.roles.Looking.owners`). What has an owner stays.
            others: number of messages of other queues that the limit of the choice counts, too.
        """
        result, limit = self.result, self.choice.limit
        left = {identity: list(notes) for identity, notes in owners.items()}
        owned: list[OwnerNote] = []
        for message in messages:
            self.has_group = self.has_group or group_of(message) == self.choice.group
            if not self.choice.fits(message):
                continue
            if notes := left.get(message.message_id or ""):
                owned.append(notes.pop())
                continue
            target = self.order.target(message)
            if isinstance(target, Stays):
                result.left[target.reason] += 1
                continue
            if limit is not None and others + result.matched >= limit:
                break
            self._meant[_key(message)] += 1
            self._ids[_key(message)] = message.message_id or ""
            result.matched += 1
            result.to[str(target)] += 1
        self._rest = result.matched
        self._leave(owned)
        return result

    def _leave(self, owned: Iterable[OwnerNote]) -> None:
        """Notes the messages that have an owner, those of one owner together."""
        for note, number in count_owners(owned):
            self.result.left[str(note)] += number
            self.result.owned += number

    def run(self, connection: Connection, *, together: bool, note: Note) -> ReplayResult:
        """Moves the messages that the preview has found.

        Args:
            connection: of :meth:`.provider_kind.AdapterProvider.connect_operator`.
            together: whether the claims of a cycle have to be settled in one commit.
            note: called before each commit.

        Raises:
            ProviderError: the provider failed, or a broker refuses the messages. Earlier commits stand.
        """
        self.result.to.clear()
        picker = connection.picker(self.source, lambda message: _key(message) in self._meant)
        with contextlib.closing(picker):
            for cycle in itertools.count(1):
                claims = picker.claim(cycle, range(min(TRANSACTION, self._rest))) if self._rest else ()
                if not claims:
                    break
                self._settle(connection, claims, together=together, note=note)
        if self._rest:
            owners = connection.owners(self.source)
            taken = [note for key in self._meant.elements() for note in owners.get(self._ids[key], ())[:1]]
            self._leave(taken)
            self.result.left[_GONE] += self._rest - len(taken)
        return self.result

    def _settle(self, connection: Settling, claims: Sequence[Claim], *, together: bool, note: Note) -> None:
        parts: dict[Target | None, list[Settlement]] = {}
        for claim in claims:
            target, settlement = self._settlement(claim)
            parts.setdefault(target, []).append(settlement)
        if together:
            self._commit(connection, parts, note)
            return
        for target, part in parts.items():
            try:
                self._commit(connection, {target: part}, note)
            except SettlementError as error:  # another target may work
                self.result.left[str(error)] += len(part)

    def _settlement(self, claim: Claim) -> tuple[Target | None, Settlement]:
        """Returns the target of a claim and its settlement. A message that is not meant goes back."""
        message = claim.headers()
        key, target = _key(message), self.order.target(message)
        if not self._meant[key]:
            key = _key_of_file(message)
        if not self._meant[key] or isinstance(target, Stays):
            return None, Settlement(claim, self.source.base, _history(message))
        self._rest -= 1
        self._meant[key] -= 1
        if not self._meant[key]:
            del self._meant[key]
        return target, Settlement(
            claim,
            target.destination,
            self.order.properties(message),
            delivery_count=0 if _is_settled(message) else claim.delivery_count,
            subscription=target.subscription,
        )

    def _commit(
        self, connection: Settling, parts: Mapping[Target | None, Sequence[Settlement]], note: Note
    ) -> None:
        settlements = [one for part in parts.values() for one in part]
        try:
            for target, part in parts.items():
                if target is not None:
                    ids = [one.claim.message_id for one in part]
                    note(Movement(self.order.what, self.source, str(target), ids))
            connection.settle(settlements, fenced=True)
        except BaseException:
            back = [
                Settlement(one.claim, give_back=True, delivery_count=one.claim.delivery_count)
                for one in settlements
            ]
            with contextlib.suppress(ConnectorError):  # at a broker the messages are back already
                connection.settle(back)
            raise
        for target, part in parts.items():
            if target is not None:
                self.result.moved += len(part)
                self.result.to[str(target)] += len(part)


def carry_out(
    provider: AdapterProvider,
    application: str,
    *movers: Mover,
    yes: bool,
    expect: int | None = None,
    note: Note,
) -> ReplayResult:
    """Looks at queues, and moves the messages if the operator says so.

    Args:
        application: ApplicationName.
        movers: new, one for each queue. Of several queues a missing one has no messages.
        yes: False = only a preview.
        expect: number of messages that the operator expects. None = any.
        note: see :meth:`Mover.run`.

    Raises:
        UnexpectedNumber: another number was found.
        UnknownDestination: there is no such queue.
        ProviderError: as :meth:`Mover.run`.
    """
    operator = provider.connect_operator(application) if yes else None
    connection = operator or provider.existing()
    with contextlib.closing(connection):
        if operator is not None:
            try_take_over(operator, at_start=True)  # of an earlier run that was killed
        for mover in movers:
            with contextlib.suppress(*([UnknownDestination] if len(movers) > 1 else [])):
                messages, others = connection.browse(mover.source), total(movers).matched
                mover.preview(messages, connection.owners(mover.source), others)
        result = total(movers)
        if expect is not None and result.matched != expect:
            left = "".join(f", {number:,} not: {reason}" for reason, number in result.left.items())
            raise UnexpectedNumber(f"expected {expect:,}, found {result.matched:,}{left}: nothing was done")
        for mover in movers:
            if operator is not None and mover.result.matched:
                mover.run(operator, together=provider.capabilities.transactions, note=note)
        return total(movers)


def total(movers: Sequence[Mover]) -> ReplayResult:
    """Returns the results of movers as one."""
    found = ReplayResult()
    for one in (mover.result for mover in movers):
        found.matched += one.matched
        found.owned += one.owned
        found.moved += one.moved
        found.to += one.to
        found.left += one.left
    return found


def _key(message: Message) -> int:
    """Returns a number for a message. A message that fails again later has another one."""
    return hash((message.message_id, text_of(message, "connector_time")))


def _key_of_file(message: Message) -> int:
    """Returns the :func:`_key` that a message had before its claim, if it came in a file without an id."""
    return hash((message.properties.get(FILE_NAME), text_of(message, "connector_time")))


def _is_settled(message: Message) -> bool:
    """Whether a message is a copy with the outcome of its event. Otherwise its deliveries count on."""
    outcome = message.properties.get("connector_outcome")
    return outcome is not None and outcome not in _UNSETTLED


def _history(message: Message) -> dict[str, PropertyValue]:
    properties = message.properties
    return {name: properties[name] for name in HISTORY if name in properties}
