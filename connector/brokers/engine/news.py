"""What the client library of a connection tells of the messages that it has fetched."""

from __future__ import annotations

import itertools
from collections.abc import Set

from connector.brokers.engine.broker import BrokerConnection, BrokerReceiver
from connector.errors import ProviderError


class News:
    """The receivers of a connection for which messages may have come.

    Each has a number, from 1 on. 0 = the client library tells nothing of that receiver.

    Args:
        connection: to the broker.
    """

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._is_told = False
        self._watched: set[int] = set()
        self._fresh: set[int] = set()

    def watch(self, receiver: BrokerReceiver) -> int:
        """Returns the number of a new receiver, for which messages may have come."""
        number = next(self._numbers)
        if not receiver.tell(number):
            return 0
        self._is_told = True
        self._watched.add(number)
        self._fresh.add(number)
        return number

    def forget(self, number: int) -> None:
        """Ends :meth:`watch`. Repeatable."""
        self._watched.discard(number)
        self._fresh.discard(number)

    def begin(self, number: int) -> bool:
        """Returns whether messages of a receiver may have come, before a look at what it has."""
        may_have = not number or number in self._fresh
        self._fresh.discard(number)
        return may_have

    def add(self, number: int) -> None:
        """Notes that messages of a receiver may have come, because a look has not seen all."""
        if number in self._watched:
            self._fresh.add(number)

    def are_for(self, numbers: Set[int]) -> bool:
        """Whether messages of one of these receivers may have come."""
        return not self._fresh.isdisjoint(numbers)

    def take(self, seconds: float) -> None:
        """Takes note of what has come. For any thread.

        Args:
            seconds: until the first message has to come.

        Raises:
            ProviderError: the connection has failed.
        """
        if self._is_told:
            found = self._connection.take_news(seconds)
            self._fresh.update(self._watched if found is None else found & self._watched)
        if self._connection.failure is not None:
            raise ProviderError(self._connection.failure)
