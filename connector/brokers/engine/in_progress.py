"""In-progress destinations at a broker: a claim moves its message, in a transaction of its own.

The moved message says whose claim it is. So no transaction is open while the events run. The settlement
receives the moved messages again, by selectors, together with everything that it sends.

A transaction of a dead client may still be open, because its commit comes late or the broker does not know of
the death. Its messages are then hidden. So a dead client is taken over when the commit queue shows the
message of each of its sessions.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
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
from connector.brokers.engine.claims import (
    BEFORE,
    BEGUN,
    LEFT,
    ORIGIN,
    OWNER,
    PLACE,
    STATE,
    TOKEN,
    WAITS,
    LentClaim,
)
from connector.brokers.engine.commits import (
    CommitMarker,
    marked_clients,
    quote,
    remove_markers,
    settled_sessions,
)
from connector.brokers.engine.copies import copy_of
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.probe import Probe, refusal_of, replies, targets
from connector.brokers.engine.progress_claim import ProgressClaim, marked_copy, name_of
from connector.brokers.engine.session import LendingSession
from connector.brokers.engine.silence import LOOK
from connector.brokers.engine.state import ClientFile, RemoteState
from connector.errors import (
    CapabilityError,
    ClaimLost,
    ConnectorError,
    ProviderError,
    TransactionRolledBack,
    UnknownDestination,
)
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.roles import Leftover
from connector.messaging.settlement import (
    HISTORY,
    Prepared,
    Settlement,
    SettlementOpen,
    TransactionRefused,
)

_log: Final = logging.getLogger("connector.recovery")

_REASON: Final = "connector_reason"
_NUMBER: Final = re.compile(r"([0-9]{1,18})/([0-9]{1,18})")
_CHUNK: Final = 100
_SILENT_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 60.0
"""Seconds of silence until a first look, and between two looks, whether another client has a message."""
_LIMIT: Final = 1 << 31
_SHOWN: Final = 5


@dataclass(slots=True)
class _Transaction:
    """A session that settles, and what its open transaction has received.

    Args:
        session: of the broker.
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


class InProgress:
    """The messages in progress, as one connection sees them. Settlements may run in several threads.

    Args:
        connection: to the broker.
        state: of the application.
        client_id: of the connection.
        instance: name of the adapter.
        commit_queue: shows which transactions have ended. None = transactions are not marked.
        redelivery_limit: deliveries after which the broker puts a message aside. None = it never does.
        later: the messages that come again later.
    """

    def __init__(
        self,
        connection: BrokerConnection,
        state: RemoteState,
        client_id: str,
        instance: str,
        commit_queue: Destination | None,
        redelivery_limit: int | None = None,
        later: LaterMessages | None = None,
    ) -> None:
        self._later = later
        self._redelivery_limit = redelivery_limit
        self._connection = connection
        self._state = state
        self._client_id = client_id
        self._file = ClientFile(state, client_id)
        self._instance = instance
        self._commit_queue = commit_queue
        self._mark = ""
        self._free: list[_Transaction] = []
        """For the next settlements."""
        self._kept: dict[frozenset[str], _Transaction] = {}
        """The transactions of settlements that are open, by the names of their claims."""
        self._settled: set[str] = set()
        """The names of settled claims of a settlement that is open."""
        self._probe = Probe(connection)
        self._numbers = itertools.count(1)
        self._names = itertools.count(1)
        self._file_lock = threading.Lock()
        self._open: set[str] = set()
        """The sessions that have not ended cleanly."""
        self._ended: Sequence[str] = ()
        """Owners of messages that are known to have ended, and have no file."""

    def begin(self, queue: Destination) -> None:
        """Shows that this client lives and has messages in a queue. Raises ProviderError if that fails."""
        self._mark = self._mark or self._state.mark()
        self._file.hold(self._instance, str(queue))

    def marker(self, session: BrokerSession) -> CommitMarker | None:
        """Returns the marker of a session of this client. None = transactions are not marked.

        Raises:
            ProviderError: the commit queue or the file of the client cannot be used.
        """
        if self._commit_queue is None:
            return None
        name = f"progress-{next(self._names)}"
        marker = _ProgressMarker(session, self._commit_queue, self._client_id, name, self._end_session)
        marker.begin()
        self._open.add(name)
        with self._file_lock:
            self._file.begin_session(name)
        return marker

    def _end_session(self, name: str) -> None:
        with self._file_lock:
            self._file.end_session(name)
        self._open.discard(name)

    # -- claiming ------------------------------------------------------------------------------------

    def move(
        self, session: LendingSession, claims: Sequence[LentClaim], queue: Destination
    ) -> list[ProgressClaim]:
        """Moves the claimed messages of a transaction, and commits.

        Raises:
            SettlementOpen: the messages are in the input again, because they cannot be moved now.
            ProviderError: the messages are in the input or in progress.
        """
        moved: list[Settlement] = []
        found: list[ProgressClaim] = []
        for claim in claims:
            message = claim.reference.message
            added: dict[str, PropertyValue] = {}
            for name in HISTORY:
                if name in message.properties:
                    added[name] = message.properties[name]
            added |= self._marks((claim.cycle, claim.sequence), claim.destination)
            moved.append(Settlement(claim, queue, {**added, BEGUN: claim.delivery_count}))
            again = message.copy(message.body)
            for name, value in added.items():
                again.set_property(name, value)
            number = claim.cycle, claim.sequence
            reference = claim.reference
            received = Received(again, reference.size, reference.unreadable)
            taken = ProgressClaim(self._client_id, number, queue, received)
            taken.delivery_count, taken.broker_count = claim.delivery_count, 0
            found.append(taken)
        try:
            session.settle(moved, ())
        except TransactionRefused as error:
            self._probe.suspect(queue)
            raise SettlementOpen(str(error)) from error
        faults.point("claim")
        return found

    def check_moves(self, queue: Destination) -> None:
        """Raises SettlementOpen if the in-progress destination takes nothing, as was seen before."""
        self._probe.check({queue})

    def _marks(self, number: tuple[int, int], origin: Destination) -> dict[str, PropertyValue]:
        return {
            OWNER: self._client_id,
            STATE: self._mark,
            PLACE: f"{number[0]}/{number[1]}",
            ORIGIN: str(origin),
            TOKEN: secrets.token_hex(8),
        }

    # -- settling ------------------------------------------------------------------------------------

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
            return _Transaction(session, self.marker(session))
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
                receiver = session.receiver(queue, f"{name} IN ({_list(values)})", 0)
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
                found += self._browse(queue, f"{BEFORE} IN ({_list(names)})")
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

    # -- messages without a living owner -------------------------------------------------------------

    def check(self, queue: Destination) -> None:
        """Checks that the messages in progress belong to clients of this state, and looks for ended clients.

        Raises:
            CapabilityError: messages belong to another state.
            ProviderError: the state or the broker cannot be used.
        """
        own, application = self._state.mark(), self._state.application
        owners: dict[str, set[str]] = {}
        for owner, _, received in self._browse(queue, f"{OWNER} IS NOT NULL"):
            owners.setdefault(owner, set()).add(str(received.message.properties.get(STATE, "")))
        directory = os.path.dirname(self._state.path)
        ended, others = [], set()
        for owner, marks in sorted(owners.items()):
            if not ClientFile.is_name(owner):
                ended.append(owner)
            elif not ClientFile.exists(directory, owner):  # first the message, then the file
                if marks == {own}:
                    ended.append(owner)
                others |= {one for one in marks - {own} if one.partition(" ")[2] in ("", application)}
        if others:
            raise CapabilityError(_of_another_state(queue, others, self._state.path))
        self._ended = ended[:_CHUNK]

    def remove_strange_markers(self) -> None:
        """Removes the marks of clients whose files somebody has removed. Only if all share one state."""
        if self._commit_queue is not None:
            marked = marked_clients(self._connection, self._commit_queue)
            for client_id in marked - self._state.clients():
                self._remove_markers(client_id)

    def find_unowned(self, queue: Destination) -> list[ProgressClaim]:
        """Returns messages in an in-progress destination without an owner, or of one that has ended."""
        ended = f" OR {OWNER} IN ({_list(self._ended)})" if self._ended else ""
        return [
            ProgressClaim(self._client_id, number, queue, received)
            for _, number, received in self._browse(queue, f"{OWNER} IS NULL{ended}")
        ]

    def _browse(self, queue: Destination, selector: str) -> Iterator[tuple[str, tuple[int, int], Received]]:
        """Yields owner, number and message."""
        try:
            found = list(self._connection.browse(queue, selector))
        except UnknownDestination:
            return
        for message in found:
            owner = str(message.properties.get(OWNER, ""))
            place = _NUMBER.fullmatch(str(message.properties.get(PLACE)))
            number = (int(place[1]), int(place[2])) if place else (0, 0)
            yield owner, number, Received(message, len(message.body))

    def adopt(self, claim: ProgressClaim, cycle: int, sequence: int) -> ProgressClaim | None:
        """Claims a message without a living owner. Returns None if the message is gone.

        Raises:
            SettlementOpen: the message does not come, or cannot be claimed now.
        """
        marks = self._marks((cycle, sequence), claim.destination)
        again = self._put_again(claim, marks)
        if again is None:
            return None
        taken = ProgressClaim(self._client_id, (cycle, sequence), claim.queue, again)
        taken.broker_count = 0
        return taken

    def leave(self, claim: ProgressClaim) -> None:
        """Leaves a message in an in-progress destination, without an owner. Repeatable.

        Raises:
            SettlementOpen: the message does not come, or its queue takes nothing.
        """
        if claim.left and not claim.owner:
            return
        self._put_again(claim, {ORIGIN: str(claim.destination), TOKEN: secrets.token_hex(8), LEFT: True})
        claim.owner, claim.left = "", True

    def _put_again(self, claim: ProgressClaim, marks: Mapping[str, PropertyValue]) -> Received | None:
        """Replaces a message by one with other marks. Returns None if the message is gone.

        Raises:
            SettlementOpen: as :meth:`adopt`.
        """
        self._probe.check({claim.queue})
        session = self._connection.session()
        try:
            receiver = session.receiver(claim.queue, claim.selector, _LIMIT)
            found = receiver.receive(0.0)
            if not found:
                receiver.close()
                self._check_gone(claim)
                return None
            begun = claim.delivery_count + (0 if claim.waits or claim.left else 1)
            again = marked_copy(claim, begun, {**marks, BEFORE: claim.name}, expires=False)
            session.send(claim.queue, again, copied=found[0].message)
            session.commit()
            return Received(again, claim.reference.size, claim.reference.unreadable)
        except (CommitUnknown, SettlementOpen):
            raise
        except (ConnectorError, ValueError) as error:
            if self._connection.failure is not None:
                raise
            self._probe.ask({claim.queue}, reason=str(error))
            raise SettlementOpen(f"{claim.message_id} stays in {claim.queue} for now: {error}") from error
        finally:
            session.close()

    def _check_gone(self, claim: ProgressClaim) -> None:
        """Asks the broker whether a message that does not come is gone.

        Nobody but the client that takes over may have what a client owned. So such a message is gone only if
        the broker shows its successor.

        Raises:
            SettlementOpen: nobody knows.
        """
        if any(self._browse(claim.queue, f"{BEFORE} = {quote(claim.name)}")):
            return
        if claim.owner or any(self._browse(claim.queue, claim.selector)):
            raise SettlementOpen(f"{claim.message_id} does not come from {claim.queue}")

    # -- dead clients --------------------------------------------------------------------------------

    def leftovers(self, queue: Destination) -> Iterator[ProgressLeftover]:
        """Yields the dead clients that this client takes over from. Each of them has a file."""
        for client_id in sorted({*ClientFile.known(self._state)} - {self._client_id}):
            file = ClientFile(self._state, client_id)
            found = file.take_over()
            if found is None:
                continue
            if not self._has_ended(client_id, file.sessions):
                fields = {"client": client_id}
                _log.warning(
                    "a transaction of a dead client is open, so the takeover is tried again later",
                    extra=fields,
                )
                file.close(removes=False)
                continue
            ours = [
                ProgressClaim(client_id, number, queue, received)
                for _, number, received in self._browse(queue, f"{OWNER} = {quote(client_id)}")
            ]
            ours.sort(key=lambda claim: (claim.cycle, claim.sequence))
            self._end_pending(client_id, {claim.duplicate_key for claim in ours})
            client = client_id, self._state.application
            yield ProgressLeftover(file, found, client, ours, self._remove_markers)

    def _has_ended(self, client_id: str, sessions: Set[str]) -> bool:
        """Whether the broker has ended all transactions of a dead client."""
        if self._commit_queue is None or not sessions:
            return True
        return sessions <= settled_sessions(self._connection, self._commit_queue, client_id)

    def _remove_markers(self, client_id: str) -> bool:
        """Removes the marks of a dead client. Returns False if one does not come."""
        queue = self._commit_queue
        return queue is None or remove_markers(self._connection, queue, client_id)

    def _end_pending(self, client_id: str, keys: set[str]) -> None:
        """Ends the pending commits of a dead client: a message in progress was not settled."""
        for number, published in self._state.pending_keys(client_id):
            if keys.isdisjoint(published):
                self._state.confirm(client_id, number)
            else:
                self._state.drop(client_id, number)

    def close(self, *, is_clean: bool) -> None:
        """Ends the use, after the other sessions have ended. Never raises.

        Args:
            is_clean: False leaves everything to the client that takes over.
        """
        for one in self._free if is_clean else ():
            try:
                if one.marker is not None:
                    one.marker.close()
            except ProviderError as error:
                _log.debug("closing a session failed", extra={"reason": str(error)})
        for one in (*self._free, *self._kept.values()):
            one.session.close()
        self._file.close(removes=is_clean and not self._open)


class _ProgressMarker(CommitMarker):
    """Marks the commits of a session that a client file names.

    Args:
        session, queue, client_id, name: as of :class:`~connector.brokers.engine.commits.CommitMarker`.
        ended: called with the name when the session ends cleanly.
    """

    def __init__(
        self,
        session: BrokerSession,
        queue: Destination,
        client_id: str,
        name: str,
        ended: Callable[[str], None],
    ) -> None:
        super().__init__(session, queue, client_id, name)
        self._ended = partial(ended, name)

    def _end(self) -> None:
        self._ended()


class ProgressLeftover(Leftover):
    declared_dead = False

    def __init__(
        self,
        file: ClientFile,
        instance: str,
        client: tuple[str, str],
        claims: Sequence[ProgressClaim],
        remove_markers: Callable[[str], bool],
    ) -> None:
        self._file = file
        self._remove_markers = remove_markers
        self.client_id, self.application = client
        self.instance = instance
        self.claims = claims

    def forget(self) -> None:
        for name in self._file.sessions:  # a next takeover finds less marks, if this one is broken off
            self._file.end_session(name)
        is_done = self._remove_markers(self.client_id)
        self._file.close(removes=is_done)  # otherwise the next takeover removes what is left

    def release(self) -> None:
        self._file.close(removes=False)


def _claim_of(settlement: Settlement) -> ProgressClaim:
    claim = settlement.claim
    assert isinstance(claim, ProgressClaim)
    return claim


def _with_less(settlement: Settlement, reason: str) -> Settlement | None:
    """Returns what the broker may take instead of a refused settlement. None = there is nothing less.

    Args:
        settlement: of one claim.
        reason: of the refusal.
    """
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


def _of_another_state(queue: Destination, marks: Set[str], path: str) -> str:
    """Returns why an adapter may not start beside messages in progress with other marks."""
    identity = next((one.partition(" ")[0] for one in sorted(marks) if one), "")
    remedy = f"write {identity} into {os.path.join(path, 'id')}, and InDoubtEvents decides on its messages"
    if not identity:  # of an older version
        published = f"connector discard {queue} ends those that were published"
        remedy = f"{published}, and connector replay {queue} sends the others back to their input"
    return (
        f"another instance, with another state directory, has messages in {queue}, so events may be "
        "published twice: set state.directory to one directory that all instances share. If the other "
        f"directory is gone for ever, stop all instances: {remedy}"
    )


def _list(values: Iterable[str]) -> str:
    """Returns texts as the list of a selector."""
    return ", ".join(map(quote, values))
