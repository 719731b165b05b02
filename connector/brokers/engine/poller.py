"""A poller of a source at a broker: one session for each open transaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from connector.brokers.engine.claims import LentClaim, duplicate_key, input_name
from connector.brokers.engine.held import HeldInput
from connector.brokers.engine.later_input import LaterInput
from connector.brokers.engine.refused_moves import RefusedMoves
from connector.brokers.engine.session import LendingSession
from connector.brokers.engine.shortage import MemoryShortage
from connector.brokers.engine.silence import BrokerSilent
from connector.errors import ProviderError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.settlement import SettlementOpen
from connector.messaging.subscription import TopicSubscription


class PollerConnection(Protocol):
    """What a poller needs of its connection."""

    client_id: str

    def check(self) -> None:
        """Raises ProviderError if the connection has ended."""

    def leave(self, poller: RemotePoller) -> None:
        """Is called when the poller is closed."""


class RemotePoller(Poller):
    """Claims in transactions of a broker. The broker counts expired messages itself.

    Args:
        move: moves claimed messages to an in-progress destination. None = they stay in the transaction.
        check_moves: raises SettlementOpen if the in-progress destination takes nothing, as was seen before.
        held: the held messages of the source. None = this client is no adapter.
        later: the messages of the source that come again later. None = this client is no adapter.
        shortage: says when the input rests. None = it never does.
    """

    expired = 0

    def __init__(
        self,
        connection: PollerConnection,
        source: Destination | TopicSubscription,
        make: Callable[[], LendingSession],
        move: Callable[[LendingSession, Sequence[LentClaim]], Sequence[LentClaim]] | None = None,
        check_moves: Callable[[], None] | None = None,
        held: HeldInput | None = None,
        later: LaterInput | None = None,
        shortage: MemoryShortage | None = None,
    ) -> None:
        self._connection = connection
        self._name = input_name(source)
        self._shortage = shortage
        self._move = move
        self._check_moves = check_moves
        self._refused = RefusedMoves()
        self._obstacle = ""
        self._later = later
        self._held = held
        self._client_id = connection.client_id
        self._make = make
        self._own: list[LendingSession] = []
        """The sessions that receive from the source. None while held messages wait: a broker may count
        deliveries of what the client library fetches for them."""
        self.destination = source if isinstance(source, Destination) else source.topic
        if not self._rests() and (held is None or not held.look()):
            self._free_session()
        self._has_taken = False
        self._last: LendingSession | None = None
        """The session of the last claim."""
        self._closed = False

    @property
    def is_full(self) -> bool:
        last = self._last
        if last is None or not last.claims:
            return last is not None and last.is_full
        is_second = any(one.claims for one in self.sessions if one is not last)
        return last.is_full or last.is_held or is_second  # a second one gets what has been fetched for it

    @property
    def obstacle(self) -> str:
        return self._obstacle or (self._held.obstacle if self._held is not None else "")

    @property
    def silent_name(self) -> str:
        """The name of the input, if it may rest, and has received nothing. Otherwise empty."""
        is_silent = self._shortage is not None and self._own and not self._has_taken
        return self._name if is_silent else ""

    def _rests(self) -> str:
        """Returns why the input rests. Empty = it does not."""
        return "" if self._shortage is None else self._shortage.obstacle(self._name)

    def listening_session(self) -> LendingSession | None:
        """Returns the session that may receive a message while nobody polls, for a later poll."""
        comes_first = (self._held is not None and self._held.has_some) or not self.until_due
        if not self.wakes or comes_first or not self._own or any(one.claims for one in self.sessions):
            return None
        self._leave_free(self._own[1:])  # the client library has fetched messages for them, too
        return self._own[0]

    @property
    def until_due(self) -> float:
        """Seconds until the next message comes again later. Infinity while a transaction is open."""
        if self._later is None or not self.wakes or any(one.claims for one in self.sessions):
            return math.inf
        return self._later.seconds

    def due_in(self) -> float:
        return self.until_due

    @property
    def sessions(self) -> list[LendingSession]:
        """All sessions."""
        others = [one.session for one in (self._held, self._later) if one is not None]
        return [*self._own, *(one for one in others if one is not None)]

    def claim(self, cycle: int, numbers: range) -> Sequence[LentClaim]:
        if self._closed:
            raise ProviderError(f"the poller of {self.destination} is closed")
        self._connection.check()
        self._obstacle = self._rests()
        if self._obstacle:
            self._leave_free(self._own)
            return []
        try:
            if self._move is None:
                taken = self._take(cycle, numbers)[1]
            else:
                taken = self._take_to_progress(cycle, numbers, self._move)
        except SettlementOpen as error:
            self._obstacle = str(error)
            raise
        self._has_taken = self._has_taken or bool(taken)
        return taken

    def _take_to_progress(
        self,
        cycle: int,
        numbers: range,
        move: Callable[[LendingSession, Sequence[LentClaim]], Sequence[LentClaim]],
    ) -> Sequence[LentClaim]:
        if self._check_moves is not None:
            self._check_moves()  # before a message is received, because a rollback counts as a delivery
        if any(session.cycle == cycle for session in self.sessions):
            return []  # its message is not moved, and nothing else belongs into its transaction
        numbers = self._refused.limit(numbers)
        session, taken = self._take(cycle, numbers)
        held = None if self._held is None else self._held.messages
        if taken and held is not None and held.must_move(taken) and held.move(session):
            session, taken = self._claim(cycle, numbers)
        if not taken or self._refused.stays(taken):
            return taken
        try:
            found = move(session, taken)
        except SettlementOpen as error:
            if error.refused:
                self._refused.note(taken, str(error))
            raise
        self._refused.note_moved()
        return found

    def _take(self, cycle: int, numbers: range) -> tuple[LendingSession, Sequence[LentClaim]]:
        session, taken = self._claim(cycle, numbers)
        if not taken and not session.is_full:
            others = [one for one in self._own[1:] if one is not session]
            if self._leave_free(others):  # what was fetched for them is in the source again
                session, taken = self._claim(cycle, numbers)
            if not taken:
                self._leave_free(self._own[1:])
        self._last = session
        return session, taken

    def delayed(self) -> Iterator[tuple[Message, str]]:
        for message in self._later.browse() if self._later is not None else ():
            yield message, duplicate_key(self.destination, message.message_id or "")

    def has_bound_messages(self, others: Sequence[str] = ()) -> bool:
        if others:  # the inputs of a queue share its messages that are held or come again later
            return False
        return (self._held is not None and self._held.look()) or super().has_bound_messages()

    def _claim(self, cycle: int, numbers: range) -> tuple[LendingSession, Sequence[LentClaim]]:
        """Claims in the transaction of a cycle, or else in a new one. Held messages come first."""
        for session in self.sessions:
            if session.cycle == cycle:
                return session, session.claim(self._client_id, cycle, numbers)
        if self._held is not None and self._held.session is not None and not self._held.session.is_free:
            return self._held.session, []  # its transaction is open, and held messages come first
        if self._held is not None:
            taken = self._held.claim(self._client_id, cycle, numbers)
            if self._held.session is not None:
                self._leave_free(self._own)
                if self.asks and not taken:
                    raise BrokerSilent(str(self.destination), self.obstacle)
                return self._held.session, taken
        if self._later is not None and (taken := self._later.claim(self._client_id, cycle, numbers)):
            assert self._later.session is not None
            return self._later.session, taken
        is_patient = not any(one.claims for one in self._own)
        session = self._free_session()
        if self.again:
            return session, []
        session.asks = self.asks
        return session, session.claim(self._client_id, cycle, numbers, is_patient=is_patient)

    def _leave_free(self, sessions: Sequence[LendingSession]) -> bool:
        """Ends those sessions of the source that have no transaction. Returns whether there are any."""
        free = [one for one in sessions if not one.claims]
        for session in free:
            session.leave()
            self._own.remove(session)
        return bool(free)

    def _free_session(self) -> LendingSession:
        """Returns a session without a transaction."""
        for session in self._own:
            if session.is_free:
                return session
        self._own.append(self._make())
        return self._own[-1]

    def close(self) -> None:
        """Closes the sessions, each at the end of its open transaction."""
        if self._closed:
            return
        self._closed = True
        for session in self.sessions:
            session.leave()
        self._connection.leave(self)
