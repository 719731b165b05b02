"""One transacted session of a broker, as the connection of a session of a Python program.

What the session receives and sends is one transaction. TRANSACTED commits it when the program says so. AUTO,
DUPS_OK and CLIENT commit what they acknowledge, because only a commit tells that the broker has done it, and
because the listener of a client library acknowledges a message before the listener has returned.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Final

from connector.brokers.engine.access import RemoteAccess
from connector.brokers.engine.broker import (
    BrokerConnection,
    BrokerReceiver,
    BrokerSession,
    Received,
    UnreadableMessage,
)
from connector.brokers.engine.broker_client import BrokerClientConnection, send_in
from connector.brokers.engine.claims import LentClaim, LentReference
from connector.brokers.engine.owners import unowned
from connector.brokers.engine.silence import BrokerSilent
from connector.errors import (
    CapabilityError,
    ClaimLost,
    DestinationError,
    MalformedData,
    ProviderError,
    SettlementError,
    TransactionRolledBack,
)
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller
from connector.messaging.settlement import GroupSettlement, Prepared, Settlement, one_by_one
from connector.messaging.subscription import TopicSubscription

_LOOK: Final = 0.05
"""Seconds of one look for messages. A ``close`` in another thread waits for it."""


class SessionConnection(BrokerClientConnection):
    """A session of a broker. Its claims and prepared messages are one transaction.

    For one thread, except :meth:`close` and :meth:`wake`.

    Args:
        broker: connection of the broker, which other clients use, too.
        limit: bytes of a body. A larger body is not read.
        keeps_unreadable: a message that cannot be read stays in a transaction of its own, so that the
            acknowledgement of another message does not acknowledge it.
        individual: each message is acknowledged for itself, without a transaction.

    Raises:
        CapabilityError: the client library cannot acknowledge single messages.
        ProviderError: a session cannot be made.
    """

    sent_ids = ""

    def __init__(
        self,
        broker: BrokerConnection,
        client_id: str,
        *,
        limit: int,
        keeps_unreadable: bool = False,
        individual: bool = False,
    ) -> None:
        self.client_id = client_id
        super().__init__(broker)
        self._limit = limit
        self._keeps_unreadable = keeps_unreadable
        self._individual = individual
        self._session = broker.session(individual=individual)
        self._pollers: list[_SessionPoller] = []
        self._leaving: list[_SessionPoller] = []
        """Closed pollers whose messages are acknowledged one by one, and not yet."""
        self._claims: dict[int, LentClaim] = {}
        """The claims of the open transaction, by sequence."""
        self._parked: list[tuple[BrokerSession, dict[int, LentClaim]]] = []
        """Sessions whose open transaction has an unreadable message."""
        self._spoilt = ""
        """Why the open transaction can only be rolled back. Empty = it can be committed."""
        self._has_sent = False
        self._woken = threading.Event()

    # -- claiming ------------------------------------------------------------------------------------

    def poller(
        self,
        source: Destination | TopicSubscription,
        in_progress: Destination | None = None,
        *,
        selector: str = "",
        by_group: bool = False,
    ) -> Poller:
        self.check()
        if isinstance(source, Destination) and source.view:
            raise CapabilityError(f"cannot poll {source}: a broker has no virtual destinations")
        if isinstance(source, Destination) and source.is_queue and source not in self.temporaries:
            selector = unowned(selector)
        poller = _SessionPoller(self, source, selector)
        poller.attach(self._session, self._limit)
        self._pollers.append(poller)
        return poller

    def take(self, poller: _SessionPoller, cycle: int, numbers: range) -> list[LentClaim]:
        """Receives messages of a poller into the open transaction."""
        self.check()
        try:
            found = poller.receive(_LOOK / max(1, len(self._pollers)), len(numbers))
            if not found and poller.asks:
                found = poller.receive(0.0, len(numbers))
        except BrokerSilent:
            poller.attach(self._session, self._limit)  # the client library may have closed its receiver
            raise
        except UnreadableMessage as error:
            if self._keeps_unreadable:
                self.park()
            elif not self._individual:
                self._spoilt = str(error)  # a commit would acknowledge a message that nobody has seen
            raise
        taken = [
            LentClaim(self.client_id, (cycle, number), poller.destination, received, poller.subscription)
            for number, received in zip(numbers, found, strict=False)
        ]
        self._claims.update((claim.sequence, claim) for claim in taken)
        if self._individual:
            poller.unsettled.update(claim.sequence for claim in taken)
        return taken

    def leave(self, poller: _SessionPoller) -> None:
        """Forgets a closed poller. Its claims can still be settled."""
        if poller in self._pollers:
            self._pollers.remove(poller)
        poller.unsettled &= self._claims.keys()
        if poller.unsettled:
            self._leaving.append(poller)
        else:
            poller.detach()

    def _end_leaving(self) -> None:
        """Ends receivers whose messages are settled. Some libraries drop acknowledgements that come later."""
        for poller in self._leaving:
            poller.unsettled &= self._claims.keys()
            if not poller.unsettled:
                poller.detach()
        self._leaving = [poller for poller in self._leaving if poller.unsettled]

    def park(self) -> None:
        """Goes on in a new transaction. The messages of the open one come again after a rollback."""
        session = self.broker.session()
        try:
            for poller in self._pollers:
                poller.attach(session, self._limit)
        except BaseException:
            session.close()
            raise
        self._parked.append((self._session, self._claims))
        self._session, self._claims = session, {}

    # -- settling ------------------------------------------------------------------------------------

    def settle(
        self,
        settlements: Sequence[Settlement | GroupSettlement],
        sends: Sequence[Prepared] = (),
        discards: Sequence[Prepared] = (),
        *,
        fenced: bool = False,
    ) -> None:
        if self._ended:
            raise SettlementError("nothing was settled: the connection is closed")
        singles = one_by_one(settlements)
        if discards or any(one.give_back for one in singles):
            self._roll_back()
            return
        named = {one.claim.sequence for one in singles}
        for _, claims in self._parked:
            if fenced and not named.isdisjoint(claims):
                raise ClaimLost("nothing was settled: the transaction has a message that cannot be read")
        ours = named & self._claims.keys()
        if (fenced or len(singles) == 1) and len(ours) < len(named):
            raise ClaimLost("nothing was settled: the message is with the broker again")
        if self._individual:
            for sequence in ours:
                self._session.acknowledge(self._claims.pop(sequence).reference.message)
            self._end_leaving()
        elif ours or self._has_sent:
            if ours != self._claims.keys():
                raise SettlementError("nothing was settled: a broker settles a transaction as a whole")
            self._commit()

    def _commit(self) -> None:
        if self._spoilt:
            reason = self._spoilt
            self._roll_back()
            raise ClaimLost(f"the transaction was rolled back: {reason}")
        self._claims = {}
        self._has_sent = False
        try:
            self._session.commit()
        except TransactionRolledBack as error:
            self._roll_back()
            raise ClaimLost(str(error)) from error

    def _roll_back(self) -> None:
        """Gives all claims back, also those of parked sessions, and drops what was sent.

        Raises:
            ProviderError: the connection has ended, which does the same.
        """
        self._claims = {}
        self._spoilt = ""
        self._has_sent = False
        parked, self._parked = self._parked, []
        for session, _ in parked:
            session.close()
        self._session.rollback()
        self._end_leaving()

    # -- sending -------------------------------------------------------------------------------------

    def access(self) -> _SessionAccess:
        return _SessionAccess(self)

    def send_later(self, destination: Destination, message: Message) -> None:
        """Sends a message in the open transaction, and sets its id.

        Raises:
            ValueError, DestinationError: the message or the destination is not valid.
            CapabilityError: the message has a delivery delay, which the broker does not keep.
            ProviderError: the broker refuses the message. If the transaction has other messages, it can only
                be rolled back.
        """
        self.check()
        self.check_message(message)
        try:
            send_in(self._session, destination, message)
        except BaseException as error:
            if self._claims or self._has_sent:
                self._spoilt = str(error)
            else:
                with contextlib.suppress(ProviderError):
                    self._session.rollback()
            raise
        self._has_sent = True

    def check_sends(self) -> None:
        """Raises ProviderError if the broker refuses a message of the open transaction."""
        if self._spoilt:
            raise ProviderError(self._spoilt)
        self._session.check_sends()

    def unreadable(self) -> None:
        """Keeps the message that cannot be read apart, where the mode needs that."""
        if self._keeps_unreadable:
            self.park()

    # -- waiting and the end -------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Waits only without a poller: a claim waits for its message itself."""
        if not self._pollers:
            self._woken.wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._woken.set()
        if self._individual and self._claims:
            with contextlib.suppress(ProviderError):
                self._session.rollback()  # or the broker would count no delivery
        for poller in (*self._pollers, *self._leaving):
            poller.detach()
        for session in (self._session, *(one for one, _ in self._parked), self._sending):
            if session is not None:
                session.close()

    def abandon(self) -> None:
        self.close()


class _SessionPoller(Poller):
    """Receives from one source into the transaction of a session."""

    expired = 0

    def __init__(
        self, connection: SessionConnection, source: Destination | TopicSubscription, selector: str
    ) -> None:
        self._connection = connection
        self._source = source
        self._selector = selector
        self._receiver: BrokerReceiver | None = None
        self._closed = False
        self.unsettled: set[int] = set()
        """The claims that are acknowledged one by one, and not yet."""
        self.destination = source if isinstance(source, Destination) else source.topic
        self.subscription = "" if isinstance(source, Destination) else source.name

    def attach(self, session: BrokerSession, limit: int) -> None:
        """Receives in a session from now on."""
        if self._receiver is not None:
            self._receiver.close()  # first, because a durable subscription has one consumer
        self._receiver = session.receiver(self._source, self._selector, limit)

    def receive(self, seconds: float, most: int) -> list[Received]:
        """Receives messages into the open transaction."""
        if self._closed or self._receiver is None:
            raise ProviderError(f"the poller of {self.destination} is closed")
        return self._receiver.receive(seconds, most)

    def claim(self, cycle: int, numbers: range) -> list[LentClaim]:
        return self._connection.take(self, cycle, numbers)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._connection.leave(self)

    def detach(self) -> None:
        """Ends the receiver."""
        if self._receiver is not None:
            with contextlib.suppress(ProviderError):
                self._receiver.close()


class _SessionAccess(RemoteAccess):
    """Reads claims, and sends in the transaction of a session. Only for the process of the session."""

    def __init__(self, connection: SessionConnection) -> None:
        self._connection = connection

    def open(self) -> _SessionAccess:
        return self

    def load(self, reference: LentReference, max_body: int) -> Message:
        try:
            return super().load(reference, max_body)
        except MalformedData:
            self._connection.unreadable()
            raise

    def prepare(self, destination: Destination, message: Message, key: str) -> Prepared:
        if destination.view:
            raise DestinationError(f"cannot send to {destination}: it shows a part of {destination.base}")
        self._connection.send_later(destination, message)
        return Prepared(message.message_id, destination)

    def sync(self) -> None:
        self._connection.check_sends()
