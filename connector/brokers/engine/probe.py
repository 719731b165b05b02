"""Finds out what a broker refuses."""

from __future__ import annotations

import time
from collections.abc import Iterable

from connector.brokers.engine.broker import BrokerConnection, EndedDestination, MessageRefused
from connector.errors import ConnectorError, ProviderError, SettlementError
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.settlement import Prepared, Settlement, SettlementOpen, TransactionRefused


class Probe:
    """Asks destinations whether they take a message. Remembers those that take none.

    A rollback counts as a delivery. So such a destination is asked before messages are received for it.

    Args:
        connection: to the broker.
    """

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._asked_again: dict[Destination, float] = {}
        """Destinations that took nothing -> when they are asked again, in monotonic seconds."""

    def takes(self, destination: Destination) -> bool:
        """Whether a destination takes an empty message, which is never delivered.

        The answer no holds as long as the question took.

        Raises:
            ProviderError: a session cannot be made.
        """
        began = time.monotonic()
        if began < self._asked_again.get(destination, 0.0):
            return False
        if _takes(self._connection, destination):
            self._asked_again.pop(destination, None)
            return True
        ended = time.monotonic()
        self._asked_again[destination] = ended + (ended - began)  # a full queue may hold up the question
        return False

    def ask(self, destinations: Iterable[Destination], reason: str = "") -> None:
        """Asks destinations.

        Args:
            destinations: that have to take a message.
            reason: of the question, for the error.

        Raises:
            SettlementOpen: one of them takes nothing.
            ProviderError: a session cannot be made.
        """
        for one in sorted(set(destinations), key=str):
            if not self.takes(one):
                why = reason.removeprefix("nothing was settled: ")
                raise SettlementOpen(f"nothing was settled: {one} takes no message{why and ': '}{why}")

    def check(self, destinations: Iterable[Destination]) -> None:
        """Asks those destinations that took nothing before.

        Raises:
            SettlementOpen, ProviderError: as :meth:`ask`.
        """
        self.ask(one for one in destinations if one in self._asked_again)


def _takes(connection: BrokerConnection, destination: Destination) -> bool:
    session = connection.session()
    try:
        session.send(destination, Message(b"", "M"))
        session.check_sends()
    except EndedDestination:
        return True  # a message for it is dropped, and stops nothing
    except ConnectorError:
        return False
    finally:
        session.close()
    return True


def targets(settlements: Iterable[Settlement], sends: Iterable[Prepared] = ()) -> set[Destination]:
    """Returns the destinations of the copies and of the prepared messages of settlements.

    Args:
        settlements: of claims.
        sends: further prepared messages.
    """
    found = {one.destination for one in sends}
    for settlement in settlements:
        found |= {one.destination for one in settlement.sends}
        if settlement.copy_to is not None and not settlement.give_back:
            found.add(settlement.copy_to)
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
