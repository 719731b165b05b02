"""In-progress destinations at a broker: a claim moves its message, in a transaction of its own.

The moved message says whose claim it is. So no transaction is open while the events run. The settlement
receives the moved messages again, by selectors, together with everything that it sends.

A transaction of a dead client may still be open, because its commit comes late or the broker does not know of
the death. Its messages are then hidden. So a dead client is taken over when the commit queue shows the
message of each of its sessions.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Final

from connector import faults
from connector.brokers.engine.access import post_prepared, sendable
from connector.brokers.engine.broker import BrokerConnection, BrokerSession, CommitUnknown, Received
from connector.brokers.engine.claims import BEGUN, LEFT, ORIGIN, OWNER, PLACE, TOKEN, WAITS, LentClaim
from connector.brokers.engine.commits import CommitMarker, quote, remove_markers, settled_sessions
from connector.brokers.engine.copies import copy_of
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.probe import refusal_of, takes
from connector.brokers.engine.progress_claim import ProgressClaim, marked_copy
from connector.brokers.engine.session import LendingSession
from connector.brokers.engine.state import ClientFile, RemoteState
from connector.errors import (
    ClaimLost,
    ConnectorError,
    ProviderError,
    TransactionRolledBack,
    UnknownDestination,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message, PropertyValue
from connector.messaging.provider import Leftover
from connector.messaging.settlement import HISTORY, Prepared, Settlement, TransactionRefused

_log: Final = logging.getLogger("connector.recovery")

_REASON: Final = "connector_reason"
_NUMBER: Final = re.compile(r"([0-9]{1,18})/([0-9]{1,18})")
_CHUNK: Final = 100
_WAIT_SECONDS: Final = 1.0
_LIMIT: Final = 1 << 31


class InProgress:
    """The messages in progress, as one connection sees them.

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
        self._session: BrokerSession | None = None
        self._marker: CommitMarker | None = None
        self._commits = 0
        self._names = itertools.count(1)
        self._open: set[str] = set()
        """The sessions that have not ended cleanly."""

    def begin(self) -> None:
        """Shows that this client lives. Raises ProviderError if that fails."""
        self._file.hold(self._instance)

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
        self._file.begin_session(name)
        return marker

    def _end_session(self, name: str) -> None:
        self._file.end_session(name)
        self._open.discard(name)

    # -- claiming ------------------------------------------------------------------------------------

    def move(
        self, session: LendingSession, claims: Sequence[LentClaim], queue: Destination
    ) -> list[ProgressClaim]:
        """Moves the claimed messages of a transaction, and commits.

        Raises:
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
            taken.delivery_count = claim.delivery_count
            found.append(taken)
        session.settle(moved, ())
        faults.point("claim")
        return found

    def _marks(self, number: tuple[int, int], origin: Destination) -> dict[str, PropertyValue]:
        return {
            OWNER: self._client_id,
            PLACE: f"{number[0]}/{number[1]}",
            ORIGIN: str(origin),
            TOKEN: secrets.token_hex(8),
        }

    # -- settling ------------------------------------------------------------------------------------

    def settle(self, settlements: Sequence[Settlement], sends: Sequence[Prepared], *, fenced: bool) -> None:
        """Settles messages in progress in one transaction.

        If the broker refuses a message of the transaction, each message is settled in its own. If it refuses
        a copy although the destination takes an empty message, the copy has the body and the reason only.

        Raises:
            ClaimLost: nothing has happened.
            SettlementError: the settlement of a message is refused. Others may have happened.
            ProviderError: nothing has happened, or the commit has an unknown end.
        """
        try:
            self._settle(settlements, sends, fenced=fenced)
        except TransactionRefused as error:
            if len(settlements) > 1:
                self._settle_each(settlements, sends, fenced=fenced)
                return
            one = settlements[0]
            if one.bare or one.copy_to is None or not takes(self._connection, one.copy_to):
                raise
            reason = f"{one.properties.get(_REASON, '')}; the broker refuses the whole copy: {error}"
            properties = {**one.properties, _REASON: reason.removeprefix("; ")}
            self._settle([replace(one, bare=True, properties=properties)], sends, fenced=fenced)

    def _settle_each(
        self, settlements: Sequence[Settlement], sends: Sequence[Prepared], *, fenced: bool
    ) -> None:
        refusal: TransactionRefused | None = None
        for one in settlements:
            try:
                self.settle([one], sends, fenced=fenced)
                sends = ()
            except TransactionRefused as error:
                refusal = error
            except ClaimLost:
                if fenced:
                    raise
        if refusal is not None:
            raise refusal

    def _settle(self, settlements: Sequence[Settlement], sends: Sequence[Prepared], *, fenced: bool) -> None:
        session = self._settling_session()
        keys = [one.published for one in settlements if one.published is not None]
        self._commits += 1
        received: dict[str, Message] = {}
        try:
            received, lost = self._receive(session, settlements)
            if lost and (fenced or len(settlements) == 1):
                raise ClaimLost(f"nothing was settled: {lost[0].message_id} is not in progress any more")
            gone = set(map(id, lost))
            kept = [one for one in settlements if id(one.claim) not in gone]
            self._send(session, kept, sends, received)
            if self._marker is not None:
                self._marker.mark(self._commits)
            self._state.pend(self._client_id, self._commits, keys)
        except ClaimLost:
            session.rollback()
            raise
        except (ConnectorError, ValueError) as error:
            session.rollback()
            self._renew(session, settlements, received)
            raise refusal_of(self._connection, error) from error
        faults.point("settle.committing")
        try:
            session.commit()
        except TransactionRolledBack as error:
            self._state.drop(self._client_id, self._commits)
            self._renew(session, settlements, received)
            raise refusal_of(self._connection, error) from error
        except CommitUnknown:
            self._marker = None  # the message in the queue tells whether the transaction has ended
            raise
        faults.point("settle.finished")
        self._state.confirm(self._client_id, self._commits)

    def _renew(
        self, session: BrokerSession, settlements: Sequence[Settlement], received: Mapping[str, Message]
    ) -> None:
        """Replaces messages that the broker would soon put aside by copies, with a count of their own.

        Args:
            received: the messages of a transaction that was rolled back, by their tokens.
        """
        limit = self._redelivery_limit
        if limit is None or all(one.delivery_count < limit - 1 for one in received.values()):
            return
        try:
            claims = [one.claim for one in settlements]
            queues = {one.token: one.queue for one in claims if isinstance(one, ProgressClaim)}
            for token, message in self._receive(session, settlements)[0].items():
                session.send(queues[token], sendable(message), copied=message)
            if self._marker is not None:
                self._marker.mark(self._commits)
            session.commit()
        except (ConnectorError, ValueError) as error:
            _log.error("messages cannot be held", extra={"reason": str(error)})
            session.rollback()

    def _settling_session(self) -> BrokerSession:
        if self._session is None:
            session = self._connection.session()
            self._marker = self.marker(session)
            self._session = session
        return self._session

    @staticmethod
    def _receive(
        session: BrokerSession, settlements: Sequence[Settlement]
    ) -> tuple[dict[str, Message], list[ProgressClaim]]:
        """Receives the messages of claims.

        Returns the messages by their tokens, and the claims whose messages are gone.
        """
        claims: dict[Destination, dict[str, ProgressClaim]] = {}
        for settlement in settlements:
            claim = settlement.claim
            assert isinstance(claim, ProgressClaim)
            claims.setdefault(claim.queue, {})[claim.token] = claim
        messages: dict[str, Message] = {}
        lost: list[ProgressClaim] = []
        for queue, wanted in claims.items():
            tokens = list(wanted)
            for start in range(0, len(tokens), _CHUNK):
                left = set(tokens[start : start + _CHUNK])
                names = ", ".join(map(quote, left))
                receiver = session.receiver(queue, f"{TOKEN} IN ({names})", 0)
                try:
                    while left and (found := receiver.receive(_WAIT_SECONDS, len(left))):
                        for one in found:
                            token = str(one.message.properties.get(TOKEN))
                            messages[token] = one.message
                            left.discard(token)
                finally:
                    receiver.close()
                lost += [wanted[token] for token in left]
        return messages, lost

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
            copied = received[claim.token]
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

    def find_unowned(self, queue: Destination) -> list[ProgressClaim]:
        """Returns messages in an in-progress destination without an owner."""
        return [
            ProgressClaim(self._client_id, number, queue, received)
            for _, number, received in self._browse(queue, f"{OWNER} IS NULL")
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
        """Claims a message without a living owner. Returns None if the message is gone."""
        marks = self._marks((cycle, sequence), claim.destination)
        again = self._put_again(claim, marks)
        if again is None:
            return None
        return ProgressClaim(self._client_id, (cycle, sequence), claim.queue, again)

    def leave(self, claim: ProgressClaim) -> None:
        """Leaves a message in an in-progress destination, without an owner."""
        if claim.left and not claim.owner:
            return
        self._put_again(claim, {ORIGIN: str(claim.destination), TOKEN: secrets.token_hex(8), LEFT: True})

    def _put_again(self, claim: ProgressClaim, marks: Mapping[str, PropertyValue]) -> Received | None:
        """Replaces a message by one with other marks. Returns None if the message is gone."""
        session = self._connection.session()
        receiver = session.receiver(claim.queue, claim.selector, _LIMIT)
        try:
            found = receiver.receive(_WAIT_SECONDS)
            if not found:
                return None
            begun = claim.delivery_count + (0 if claim.waits or claim.left else 1)
            again = marked_copy(claim, begun, marks, expires=False)
            session.send(claim.queue, again, copied=found[0].message)
            session.commit()
            return Received(again, claim.reference.size, claim.reference.unreadable)
        finally:
            session.close()

    # -- dead clients --------------------------------------------------------------------------------

    def leftovers(self, queue: Destination, *, at_start: bool) -> Iterator[ProgressLeftover]:
        """Yields the dead clients that this client takes over from."""
        owners = {owner for owner, _, _ in self._browse(queue, f"{OWNER} IS NOT NULL")}
        for client_id in sorted({*owners, *ClientFile.known(self._state)} - {self._client_id}):
            file = ClientFile(self._state, client_id)
            found = file.take_over(at_start=at_start)
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

    def _remove_markers(self, client_id: str) -> None:
        if self._commit_queue is not None:
            remove_markers(self._connection, self._commit_queue, client_id)

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
        if self._marker is not None and is_clean:
            try:
                self._marker.close()
            except ProviderError as error:
                _log.debug("closing a session failed", extra={"reason": str(error)})
        if self._session is not None:
            self._session.close()
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

    def close(self) -> None:
        self._ended()
        super().close()


class ProgressLeftover(Leftover):
    declared_dead = False

    def __init__(
        self,
        file: ClientFile,
        instance: str,
        client: tuple[str, str],
        claims: Sequence[ProgressClaim],
        remove_markers: Callable[[str], None],
    ) -> None:
        self._file = file
        self._remove_markers = remove_markers
        self.client_id, self.application = client
        self.instance = instance
        self.claims = claims

    def forget(self) -> None:
        self._remove_markers(self.client_id)
        self._file.close(removes=True)

    def release(self) -> None:
        self._file.close(removes=False)
