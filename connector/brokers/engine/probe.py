"""Finds out what a broker refuses."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Final

from connector.brokers.engine.broker import BrokerConnection, EndedDestination, MessageRefused
from connector.errors import ConnectorError, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared, Settlement, SettlementOpen, TransactionRefused

_SHORT_SECONDS: Final = 0.2
"""Seconds for which the thread of the poll waits for an answer."""
_MOST_QUESTIONS: Final = 100


class Probe:
    """Asks destinations whether they take a message. Remembers those that take none.

    A rollback counts as a delivery. So such a destination is asked before messages are received for it.
    """

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._refusing: dict[Destination, float] = {}
        """Destinations that took nothing -> when they are asked again, in monotonic seconds."""
        self._closed: set[Destination] = set()
        """Those whose broker has answered that it refuses an empty message, whatever the moment is."""
        self._questions: dict[Destination, Future[bool]] = {}
        """Questions without an answer. A full queue may hold up the answer."""
        self._threads = ThreadPoolExecutor(_MOST_QUESTIONS, thread_name_prefix="probe")

    def takes(self, destination: Destination) -> bool:
        """Whether a destination takes an empty message, which is never delivered.

        The answer no holds as long as the question took. The client library says how long this may wait.
        """
        if time.monotonic() < self._refusing.get(destination, 0.0):
            return False
        return self._question(destination).result()

    def suspect(self, destination: Destination) -> None:
        """Lets a destination count as one that refuses, until it takes an empty message."""
        self._refusing.setdefault(destination, 0.0)

    def refuses(self, destination: Destination, *, asks: bool = True) -> bool:
        """Whether a destination took nothing when it was asked last. For the thread of the poll, too.

        Args:
            destination: only one that was asked before can refuse.
            asks: whether to ask again in another thread, and to wait for the answer shortly.
        """
        due = self._refusing.get(destination)
        if asks and due is not None and due <= time.monotonic() and destination not in self._questions:
            wait([self._question(destination)], _SHORT_SECONDS)
        return destination in self._refusing

    def _question(self, destination: Destination) -> Future[bool]:
        with self._lock:
            question = self._questions.get(destination)
            if question is None:
                question = self._questions[destination] = self._threads.submit(self._ask, destination)
            return question

    def _ask(self, destination: Destination) -> bool:
        began = time.monotonic()
        is_taken = is_closed = False
        try:
            is_taken = _takes(self._connection, destination)
        except MessageRefused:
            is_closed = True
        finally:
            with self._lock:
                del self._questions[destination]
                self._refusing.pop(destination, None)
                self._closed.discard(destination)
                if is_closed:
                    self._closed.add(destination)
                if not is_taken:
                    ended = time.monotonic()
                    self._refusing[destination] = ended + (ended - began)
        return is_taken

    def ask(
        self, destinations: Iterable[Destination], replies: Iterable[Destination] = (), reason: str = ""
    ) -> None:
        """Asks destinations.

        Args:
            destinations: that have to take a message.
            replies: further ones. Each is named by a single message, and may be closed for ever.
            reason: of the question, for the error.

        Raises:
            SettlementOpen: one of them takes nothing. One of ``replies`` takes nothing now.
        """
        wanted = set(destinations)
        for one in sorted(wanted | set(replies), key=str):
            if not self.takes(one) and (one in wanted or one not in self._closed):
                raise _takes_nothing(one, reason)

    def check(self, destinations: Set[Destination], replies: Set[Destination] = frozenset()) -> None:
        """Raises SettlementOpen as :meth:`ask`, if a destination :meth:`refuses`."""
        for one in destinations | replies:
            if self.refuses(one) and (one in destinations or one not in self._closed):
                raise _takes_nothing(one)

    def refusing(self, destinations: Iterable[Destination]) -> set[Destination]:
        """Asks destinations, and returns those that take nothing."""
        return {one for one in destinations if not self.takes(one)}


def _takes_nothing(destination: Destination, reason: str = "") -> SettlementOpen:
    why = reason.removeprefix("nothing was settled: ")
    return SettlementOpen(f"nothing was settled: {destination} takes no message{why and ': '}{why}")


def _takes(connection: BrokerConnection, destination: Destination) -> bool:
    try:
        session = connection.session()
        try:
            session.send(destination, Message(b"", "M"))
            session.check_sends()
        finally:
            session.close()
    except EndedDestination:
        return True  # a message for it is dropped, and stops nothing
    except MessageRefused:
        raise
    except ConnectorError:
        return False
    return True


def targets(settlements: Iterable[Settlement], sends: Iterable[Prepared] = ()) -> set[Destination]:
    """Returns the destinations of the copies and of the prepared messages of settlements.

    Without :func:`replies`.
    """
    found = {one.destination for one in sends}
    for settlement in settlements:
        found |= {one.destination for one in settlement.sends} - replies([settlement])
        if settlement.copy_to is not None and not settlement.give_back:
            found.add(settlement.copy_to)
    return found


def replies(settlements: Iterable[Settlement]) -> set[Destination]:
    """Returns the destinations of the replies of settlements, each of which a single message names."""
    found: set[Destination] = set()
    for settlement in settlements:
        if settlement.sends and (reply_to := settlement.claim.headers().reply_to):
            found |= {one.destination for one in settlement.sends if str(one.destination) == reply_to}
    return found


def refusal_of(connection: BrokerConnection, error: Exception) -> SettlementError:
    """Returns the error of a transaction that the broker has not committed.

    Only an answer of the broker, or a message that cannot be made, blames a message. A lost connection does
    not, even if the client library has made another connection since.
    """
    text = f"nothing was settled: {error}"
    if connection.failure is not None:
        return SettlementError(text)
    refused = any(isinstance(one, MessageRefused) for one in (error, error.__cause__))
    return TransactionRefused(text, blames=refused or not isinstance(error, ProviderError))
