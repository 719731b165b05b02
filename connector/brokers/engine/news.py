"""What the client library of a connection tells of the messages that it has fetched."""

from __future__ import annotations

import itertools
from collections.abc import Set

from connector.brokers.engine.broker import BrokerConnection, BrokerReceiver
from connector.errors import ProviderError


class ReceiverNews:
    """The receivers of a connection for which messages may have come.

    Each has a number, from 1 on. 0 = the client library tells nothing of that receiver.
    """

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self._is_told = False
        self._watched: set[int] = set()
        self._fresh: set[int] = set()
        """The receivers that have messages, as far as is known."""
        self._unknown: set[int] = set()
        """The receivers that somebody has to look at."""

    def watch(self, receiver: BrokerReceiver) -> int:
        """Returns the number of a new receiver."""
        number = next(self._numbers)
        if not receiver.notify(number):
            return 0
        self._is_told = True
        self._watched.add(number)
        self._unknown.add(number)
        return number

    def forget(self, number: int) -> None:
        """Ends :meth:`watch`. Repeatable."""
        for numbers in (self._watched, self._fresh, self._unknown):
            numbers.discard(number)

    def begin(self, number: int) -> bool:
        """Returns whether messages of a receiver may have come, before a look at what it has."""
        may_have = not number or number in self._fresh or number in self._unknown
        self._fresh.discard(number)
        self._unknown.discard(number)
        return may_have

    def add(self, number: int, *, is_sure: bool = False) -> None:
        """Notes that messages of a receiver have come, or may have come without being told."""
        if number in self._watched:
            (self._fresh if is_sure else self._unknown).add(number)

    def must_look(self, number: int) -> bool:
        """Whether messages of a receiver may have come without being told."""
        return number in self._unknown

    def are_for(self, numbers: Set[int]) -> bool:
        """Whether messages of one of these receivers have come."""
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
