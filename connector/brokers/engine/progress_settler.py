"""Settles messages in progress at a broker.

The settlement receives the moved messages again, by selectors, together with everything that it sends. Each
transaction is marked in the commit queue, so that a client that takes over sees which ones are open.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from connector import faults
from connector.brokers.engine.access import post_prepared, sendable
from connector.brokers.engine.broker import (
    BrokerConnection,
    BrokerReceiver,
    BrokerSession,
    CommitUnknown,
    Received,
)
from connector.brokers.engine.claims import BEFORE, ORIGIN, TOKEN, WAITS
from connector.brokers.engine.commits import CommitMarker
from connector.brokers.engine.copies import copy_of
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.probe import Probe, refusal_of, replies, targets
from connector.brokers.engine.progress_claim import (
    ProgressClaim,
    browse_progress,
    marked_copy,
    name_of,
    one_of,
)
from connector.brokers.engine.silence import LOOK
from connector.brokers.engine.state import RemoteState
from connector.errors import ClaimLost, ConnectorError, ProviderError, TransactionRolledBack
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.settlement import Prepared, Settlement, SettlementOpen, TransactionRefused

_log: Final = logging.getLogger("connector.recovery")
_REASON: Final = "connector_reason"
_CHUNK: Final = 100
_SILENT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 60.0
"""Seconds of silence until a first look, and between two looks, whether another client has a message."""
_SHOWN: Final = 5


@dataclass(slots=True)
class _Transaction:
    """A session that settles, and what its open transaction has received.

    Args:
        marker: of its commits. None = they are not marked.
    """

    session: BrokerSession
    marker: CommitMarker | None
    number: int = 0
    """Of the commit that comes next. 0 = the transaction has not begun."""
    received: dict[str, Message] = field(default_factory=dict)
    """By the names of the claims."""
    receivers: list[tuple[BrokerReceiver, set[str]]] = field(default_factory=list)
    """Receivers, and the names of the claims whose messages have not come to them."""
    look_at: float = 0.0

    def roll_back(self) -> None:
        """Gives back what was received.

        Raises:
            ProviderError: the connection has ended, which does the same.
        """
        self.end()
        self.session.rollback()

    def end(self) -> None:
        """Forgets what belongs to the transaction that ends."""
        for receiver, _ in self.receivers:
            receiver.close()
        self.number, self.received, self.receivers = 0, {}, []


class ProgressSettler:
    """The settlements of messages in progress, as one connection makes them. They may run in several threads.

    Args:
        commit_queue: shows which transactions have ended. None = transactions are not marked.
        redelivery_limit: deliveries after which the broker puts a message aside. None = it never does.
        make_marker: returns the marker of a new session, or None if transactions are not marked.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        state: RemoteState,
        client_id: str,
        commit_queue: Destination | None,
        redelivery_limit: int | None,
        later: LaterMessages | None,
        probe: Probe,
        make_marker: Callable[[BrokerSession], CommitMarker | None],
    ) -> None:
        self._connection = connection
        self._state = state
        self._client_id = client_id
        self._commit_queue = commit_queue
        self._redelivery_limit = redelivery_limit
        self._later = later
        self._probe = probe
        self._make_marker = make_marker
        self._free: list[_Transaction] = []
        """For the next settlements."""
        self._kept: dict[frozenset[str], _Transaction] = {}
        """The transactions of settlements that are open, by the names of their claims."""
        self._settled: set[str] = set()
        """The names of settled claims of a settlement that is open."""
        self._numbers = itertools.count(1)

    def settle(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        """Settles messages in progress in one transaction.

        If the broker refuses a message of the transaction, each message is settled in its own. If it refuses
        a copy although the destination takes an empty message, the copy has the body and the reason only. A
        message that cannot even go back to its input stays in progress, as one that waits.

        Raises:
            SettlementOpen: the settlement is not complete: a message has not come, a destination takes
                nothing, or the broker refuses a message for good. The same settlement goes on with the next
                call for its claims.
            ClaimLost: another client has taken a message over. Nothing has happened.
            ProviderError: nothing has happened, or the commit has an unknown end.
        """
        left = [one for one in settlements if _claim_of(one).name not in self._settled]
        try:
            self._settle_all(left, sends)
        except TransactionRefused as error:
            raise SettlementOpen(str(error)) from error
        self._settled.difference_update(_claim_of(one).name for one in settlements)

    def _settle_all(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        wanted, of_replies = self._targets(settlements, sends), replies(settlements)
        self._probe.check(wanted, of_replies)
        try:
            self._settle(settlements, sends)
        except TransactionRefused as error:
            self._probe.ask(wanted, of_replies, str(error))
            if not error.blames:
                raise
            if len(settlements) > 1:
                self._settle_each(settlements, sends)
                return
            (one,) = settlements
            less = _with_less(one, str(error))
            if less is None:
                raise SettlementOpen(str(error), refused=[(one.claim, str(error))]) from error
            self._settle_all([less], sends)

    def _targets(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> set[Destination]:
        found = targets(settlements, sends)
        if self._commit_queue is not None:
            found.add(self._commit_queue)
        for one in settlements:
            claim = _claim_of(one)
            if one.due and self._later is not None:
                found.add(self._later.queue)
            elif one.give_back:
                found.add(claim.queue if one.stay else claim.destination)
        return found

    def _settle_each(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        reason = ""
        silent: list[Claim] = []
        refused: list[tuple[Claim, str]] = []
        for one in settlements:
            try:
                self._settle_all([one], sends)
                sends = ()
                self._settled.add(_claim_of(one).name)
            except TransactionRefused as error:
                reason = str(error)
            except SettlementOpen as error:
                reason = str(error)
                silent += error.claims
                refused += error.refused
        if reason:
            raise SettlementOpen(reason, silent, refused)

    def _settle(self, settlements: Sequence[Settlement], sends: Sequence[Prepared]) -> None:
        claims = [_claim_of(one) for one in settlements]
        if not claims:
            return
        key = frozenset(one.name for one in claims)
        for other in [one for one in list(self._kept) if one != key and not one.isdisjoint(key)]:
            self._roll_back(self._kept.pop(other))  # or its messages would not come here
        transaction = self._kept.pop(key, None) or self._take_free()
        keys = [one.published for one in settlements if one.published is not None]
        try:
            self._receive(transaction, claims)
            if self._is_near(transaction):
                self._put_anew(transaction, claims)
                self._receive(transaction, claims)
            self._send(transaction.session, settlements, sends, transaction.received)
            self._state.pend(self._client_id, transaction.number, keys)
        except SettlementOpen:
            if all(one.owner == self._client_id for one in claims):
                self._kept[key] = transaction  # a rollback would count as a delivery of what has come
            else:  # the next takeover looks at the messages of a dead client again
                self._roll_back(transaction)
            raise
        except ClaimLost:
            self._roll_back(transaction)
            raise
        except (ConnectorError, ValueError) as error:
            self._roll_back(transaction)
            raise refusal_of(self._connection, error) from error
        faults.point("settle.committing")
        number = transaction.number
        transaction.end()
        try:
            transaction.session.commit()
        except TransactionRolledBack as error:
            self._state.drop(self._client_id, number)
            self._free.append(transaction)
            raise refusal_of(self._connection, error) from error
        except CommitUnknown:
            transaction.marker = None  # the message in the queue tells whether the transaction has ended
            self._free.append(transaction)
            raise
        faults.point("settle.finished")
        self._free.append(transaction)
        self._state.confirm(self._client_id, number)

    def _take_free(self) -> _Transaction:
        with contextlib.suppress(IndexError):
            return self._free.pop()
        return self._make()

    def _make(self) -> _Transaction:
        """Returns a transaction of a new session. Raises SettlementOpen if the commit queue takes no mark."""
        session = self._connection.session()
        try:
            return _Transaction(session, self._make_marker(session))
        except ProviderError as error:
            session.close()
            if self._connection.failure is not None:
                raise
            raise SettlementOpen(f"nothing was settled: {error}") from error

    def _roll_back(self, transaction: _Transaction) -> None:
        transaction.roll_back()
        self._free.append(transaction)

    def _receive(self, transaction: _Transaction, claims: Sequence[ProgressClaim]) -> None:
        """Receives the messages of claims that have not come yet.

        The mark comes first. So a client that takes over sees that the transaction is open, as long as it has
        messages that nobody else sees.

        Raises:
            SettlementOpen: a message has not come. What has come stays in the transaction.
            ClaimLost: another client has taken a message over.
        """
        self._begin(transaction, claims)
        session, silent = transaction.session, bool(transaction.receivers)
        if not silent:
            for queue, name, values in _selections(claims):
                receiver = session.receiver(queue, f"{name} IN ({one_of(values)})", 0)
                transaction.receivers.append((receiver, values))
        by_name = {one.name: one for one in claims}
        for receiver, left in transaction.receivers:
            while left and (found := receiver.receive(-1.0 if silent else LOOK, len(left))):
                for one in found:
                    name = name_of(one.message)[1]
                    if name in left:
                        by_name[name].broker_count = one.message.delivery_count
                        transaction.received[name] = one.message
                        left.discard(name)
        missing = [by_name[name] for _, left in transaction.receivers for name in left]
        if missing:
            self._check_owners(transaction, missing)
            ids = ", ".join(one.message_id for one in missing[:_SHOWN])
            raise SettlementOpen(
                f"nothing was settled: {len(missing)} of {len(claims)} messages do not come from "
                f"{missing[0].queue} ({ids}{', ...' if len(missing) > _SHOWN else ''})",
                missing,
            )

    def _begin(self, transaction: _Transaction, claims: Sequence[ProgressClaim]) -> None:
        """Begins a transaction with its mark, unless it has begun.

        Raises:
            SettlementOpen: the mark of the commit before has not come. Or a message has to be put anew, and
                its queue takes none.
        """
        if transaction.number:
            return
        limit = self._redelivery_limit
        if limit is not None:
            self._probe.ask({one.queue for one in claims if one.broker_count >= max(1, limit - 2)})
        number = next(self._numbers)
        if transaction.marker is not None:
            if not transaction.marker.consume() and not self._renew(transaction):
                raise SettlementOpen(
                    f"nothing was settled: the last mark does not come from {self._commit_queue}"
                )
            transaction.marker.send(number)
        transaction.number = number

    def _renew(self, transaction: _Transaction) -> bool:
        """Gives a transaction another session, if the commit queue does not show the mark of the last commit.

        Somebody may have removed the mark. Returns whether the transaction can begin.
        """
        last = transaction.marker
        if last is None or last.is_shown(self._connection):
            return False
        new = self._make()
        last.drop()
        transaction.session, transaction.marker = new.session, new.marker
        return new.marker is not None and new.marker.consume()

    def _check_owners(self, transaction: _Transaction, claims: Sequence[ProgressClaim]) -> None:
        """Looks now and then whether another client has taken messages over that do not come.

        Raises:
            ClaimLost: one has.
        """
        now = time.monotonic()
        if not transaction.look_at:
            transaction.look_at = now + _SILENT_SECONDS
        if now < transaction.look_at:
            return
        transaction.look_at = now + _LOOK_SECONDS
        found: list[tuple[str, tuple[int, int], Received]] = []
        with contextlib.suppress(ProviderError):  # silence tells nothing
            for queue, _, names in _selections(claims):
                found += browse_progress(self._connection, queue, f"{BEFORE} IN ({one_of(names)})")
        for owner, _, received in found:
            name = received.message.properties.get(BEFORE)
            raise ClaimLost(f"nothing was settled: the client {owner!r} has taken {name} over")

    def _is_near(self, transaction: _Transaction) -> bool:
        """Whether the broker puts a message of the transaction aside soon."""
        limit = self._redelivery_limit
        counts = (one.delivery_count for one in transaction.received.values())
        return limit is not None and any(count >= max(2, limit - 1) for count in counts)

    def _put_anew(self, transaction: _Transaction, claims: Sequence[ProgressClaim]) -> None:
        """Replaces the messages of a transaction by copies, with a count of their own.

        Raises:
            SettlementOpen: the queue takes no copy. Nothing went back.
            ProviderError: a copy is refused, or the commit has failed.
        """
        queues = {one.name: one.queue for one in claims}
        self._probe.ask(queues.values())
        for name, message in transaction.received.items():
            transaction.session.post(queues[name], sendable(message), copied=message)
        transaction.end()
        transaction.session.commit()
        for one in claims:
            one.broker_count = 0

    def _send(
        self,
        session: BrokerSession,
        settlements: Sequence[Settlement],
        sends: Sequence[Prepared],
        received: Mapping[str, Message],
    ) -> None:
        for prepared in (*sends, *(one for settlement in settlements for one in settlement.sends)):
            post_prepared(self._connection, session, prepared)
        for settlement in settlements:
            claim = settlement.claim
            assert isinstance(claim, ProgressClaim)
            copied = received[claim.name]
            if settlement.due and self._later is not None:
                self._later.post(session, settlement, str(claim.destination), copied)
            elif settlement.give_back:
                stays = settlement.stay or claim.destination == claim.queue
                marks: dict[str, PropertyValue] = dict(settlement.properties)
                if settlement.stay:
                    marks |= {ORIGIN: str(claim.destination), TOKEN: secrets.token_hex(8), WAITS: True}
                back = marked_copy(claim, settlement.delivery_count, marks, expires=not stays)
                session.post(claim.queue if stays else claim.destination, back, copied=copied)
            elif settlement.copy_to is not None:
                session.post(settlement.copy_to, copy_of(settlement), copied=copied)

    def close(self, *, is_clean: bool) -> None:
        """Ends all sessions. Never raises.

        Args:
            is_clean: whether the marks of ended transactions go, too.
        """
        for one in self._free if is_clean else ():
            try:
                if one.marker is not None:
                    one.marker.close()
            except ProviderError as error:
                _log.debug("closing a session failed", extra={"reason": str(error)})
        for one in (*self._free, *self._kept.values()):
            one.session.close()


def _claim_of(settlement: Settlement) -> ProgressClaim:
    claim = settlement.claim
    assert isinstance(claim, ProgressClaim)
    return claim


def _with_less(settlement: Settlement, reason: str) -> Settlement | None:
    """Returns what the broker may take instead of a refused settlement. None = there is nothing less."""
    claim = _claim_of(settlement)
    if settlement.give_back:
        can_stay = not (settlement.stay or settlement.due or claim.destination == claim.queue)
        return replace(settlement, stay=True) if can_stay else None
    if settlement.bare or settlement.copy_to is None:
        return None
    why = f"{settlement.properties.get(_REASON, '')}; the broker refuses the whole copy: {reason}"
    properties = {**settlement.properties, _REASON: why.removeprefix("; ")}
    return replace(settlement, bare=True, properties=properties)


def _selections(claims: Iterable[ProgressClaim]) -> Iterator[tuple[Destination, str, set[str]]]:
    """Yields a queue, and the name and values of the property by which some of its messages are received."""
    found: dict[tuple[Destination, str], list[str]] = {}
    for one in claims:
        found.setdefault((one.queue, one.named_by), []).append(one.name)
    for (queue, name), values in found.items():
        for start in range(0, len(values), _CHUNK):
            yield queue, name, set(values[start : start + _CHUNK])
