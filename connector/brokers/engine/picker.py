"""A poller of an operator at a broker: it takes picked messages by their ids."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from connector.brokers.engine.claims import ORIGINAL_ID, original
from connector.brokers.engine.commits import quote
from connector.brokers.engine.silence import BrokerSilent
from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.polling import Poller

_MOST: Final = 50
"""Ids in a selector. A broker compares each of them with each message."""


class RemotePicker(Poller):
    """Takes the messages of a queue that a program picks. The broker knows them by their ids only.

    Args:
        wanted: picks messages, with the headers of their senders.
        shows: whether the broker shows a message of the queue that a selector matches.
    """

    expired = 0

    def __init__(
        self,
        queue: Destination,
        messages: Iterator[Message],
        wanted: Callable[[Message], bool],
        poll: Callable[[str], Poller],
        shows: Callable[[str], bool],
    ) -> None:
        self.destination = queue
        self._found = _picked(messages, wanted)
        self._poll = poll
        self._shows = shows
        self._selector = ""
        self._poller: Poller | None = None
        self._left = 0
        """Messages that :attr:`_poller` has not taken yet."""

    def claim(self, cycle: int, numbers: range) -> Sequence[Claim]:
        while True:
            if self._poller is not None:
                taken = self._poller.claim(cycle, numbers)
                self._left -= len(taken)
                if self._left <= 0 or not taken:
                    self.close()
                if not taken and self._shows(self._selector):
                    raise BrokerSilent(f"messages of {self.destination} do not come", "the broker shows them")
                if taken:
                    return taken
            terms = list(itertools.islice(self._found, min(_MOST, len(numbers))))
            if not terms:
                return []
            self._selector = _selector(terms)
            self._poller, self._left = self._poll(self._selector), len(terms)
            self._poller.asks = True

    def close(self) -> None:
        if self._poller is not None:
            self._poller.close()
            self._poller = None


def _picked(messages: Iterator[Message], wanted: Callable[[Message], bool]) -> Iterator[tuple[str, str]]:
    """Yields the name and the value by which the broker finds each wanted message."""
    for message in messages:
        name = ORIGINAL_ID if ORIGINAL_ID in message.properties else "JMSMessageID"
        original(message)
        if message.message_id and wanted(message):
            yield name, message.message_id


def _selector(terms: Sequence[tuple[str, str]]) -> str:
    by_name: dict[str, list[str]] = {}
    for name, value in terms:
        by_name.setdefault(name, []).append(quote(value))
    return " OR ".join(f"{name} IN ({', '.join(values)})" for name, values in by_name.items())
