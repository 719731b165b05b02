"""The messages of one input that come again later, as its poller takes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from connector.brokers.engine.claims import DUE, HELD_FOR, LentClaim, input_name
from connector.brokers.engine.commits import quote
from connector.brokers.engine.later import LaterMessages
from connector.brokers.engine.session import LendingSession
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.subscription import TopicSubscription


class LaterInput:
    def __init__(
        self,
        later: LaterMessages,
        source: Destination | TopicSubscription,
        make: Callable[[Destination, str], LendingSession],
    ) -> None:
        self._later = later
        self._name = input_name(source)
        self._make = make
        self.session: LendingSession | None = None
        """Receives what was due when it was made. None while nothing is known to be due."""

    @property
    def seconds(self) -> float:
        """Seconds until the next message is due, as far as is known."""
        return self._later.seconds(self._name)

    def browse(self) -> Iterator[Message]:
        """Yields the messages, as :meth:`LaterMessages.browse`."""
        return self._later.browse(self._name)

    def claim(self, client_id: str, cycle: int, numbers: range) -> list[LentClaim]:
        """Receives messages that are due into a transaction of :attr:`session`.

        Raises:
            ProviderError: the broker failed.
        """
        self._later.look()
        if self.session is not None and not self.session.is_free:
            return []  # its transaction is open
        while not self.seconds:
            is_new = self.session is None
            if self.session is None:
                selector = f"{HELD_FOR} = {quote(self._name)} AND {DUE} <= {time.time_ns() // 1_000_000}"
                self.session = self._make(self._later.queue, selector)
            taken = self.session.claim(client_id, cycle, numbers)
            if taken:
                return taken
            self.session.leave()
            self.session = None
            self._later.look_again(self._name)
            if is_new:
                break
        return []
