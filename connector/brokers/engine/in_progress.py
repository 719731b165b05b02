"""In-progress destinations at a broker: a claim moves its message, in a transaction of its own.

The moved message says whose claim it is. So no transaction is open while the events run. The settlement
(:mod:`connector.brokers.engine.progress_settler`) receives the moved messages again.

A transaction of a dead client may still be open, because its commit comes late or the broker does not know of
the death. Its messages are then hidden. So a dead client is taken over when the commit queue shows the
message of each of its sessions.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Final

from connector import faults
from connector.brokers.engine.broker import BrokerConnection, BrokerSession, CommitUnknown, Received
from connector.brokers.engine.claims import BEFORE, BEGUN, LEFT, ORIGIN, OWNER, PLACE, STATE, TOKEN, LentClaim
from connector.brokers.engine.commits import (
    CommitMarker,
    marked_clients,
    quote,
    remove_markers,
    settled_sessions,
)
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.probe import Probe
from connector.brokers.engine.progress_claim import ProgressClaim, browse_progress, marked_copy, one_of
from connector.brokers.engine.progress_settler import ProgressSettler
from connector.brokers.engine.session import LendingSession
from connector.brokers.engine.state import ClientFile, RemoteState
from connector.errors import CapabilityError, ConnectorError
from connector.messaging.claim import file_key
from connector.messaging.destination import Destination
from connector.messaging.message import PropertyValue
from connector.messaging.roles import Leftover
from connector.messaging.settlement import HISTORY, Settlement, SettlementOpen, TransactionRefused

_log: Final = logging.getLogger("connector.recovery")
_CHUNK: Final = 100
_LIMIT: Final = 1 << 31


class InProgress:
    """The messages in progress, as one connection sees them.

    Args:
        commit_queue: shows which transactions have ended. None = transactions are not marked.
        redelivery_limit: deliveries after which the broker puts a message aside. None = it never does.
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
        self._connection = connection
        self._state = state
        self._client_id = client_id
        self._file = ClientFile(state, client_id)
        self._instance = instance
        self._commit_queue = commit_queue
        self._mark = ""
        self._probe = Probe(connection)
        self._names = itertools.count(1)
        self._file_lock = threading.Lock()
        self._open: set[str] = set()
        """The sessions that have not ended cleanly."""
        self._ended: Sequence[str] = ()
        """Owners of messages that are known to have ended, and have no file."""
        self.settler = ProgressSettler(
            connection, state, client_id, commit_queue, redelivery_limit, later, self._probe, self.marker
        )

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
        ended = partial(self._end_session, name)
        marker = CommitMarker(session, self._commit_queue, self._client_id, name, ended=ended)
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
            SettlementOpen: the messages are in the input again, because they cannot be moved now. If one of
                them cannot be moved at all, ``refused`` has them.
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
            is_one_to_blame = error.blames and self._probe.takes(queue)
            refused = [(claim, str(error)) for claim in claims] if is_one_to_blame else ()
            raise SettlementOpen(str(error), refused=refused) from error
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

    # -- messages without a living owner -------------------------------------------------------------

    def check(self, queue: Destination) -> None:
        """Checks that the messages in progress belong to clients of this state, and looks for ended clients.

        Raises:
            CapabilityError: messages belong to another state.
            ProviderError: the state or the broker cannot be used.
        """
        own, application = self._state.mark(), self._state.application
        owners: dict[str, set[str]] = {}
        for owner, _, received in browse_progress(self._connection, queue, f"{OWNER} IS NOT NULL"):
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
        ended = f" OR {OWNER} IN ({one_of(self._ended)})" if self._ended else ""
        return [
            ProgressClaim(self._client_id, number, queue, received)
            for _, number, received in browse_progress(self._connection, queue, f"{OWNER} IS NULL{ended}")
        ]

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
        if any(browse_progress(self._connection, claim.queue, f"{BEFORE} = {quote(claim.name)}")):
            return
        if claim.owner or any(browse_progress(self._connection, claim.queue, claim.selector)):
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
                for _, number, received in browse_progress(
                    self._connection, queue, f"{OWNER} = {quote(client_id)}"
                )
            ]
            ours.sort(key=lambda claim: (claim.cycle, claim.sequence))
            keys = {claim.duplicate_key for claim in ours}
            keys |= {file_key(claim.destination, claim.subscription, claim.file_name) for claim in ours}
            self._end_pending(client_id, keys)
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
        self.settler.close(is_clean=is_clean)
        self._file.close(removes=is_clean and not self._open)


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
