"""Consumers: take messages of a queue or subscription, by call or with a listener (JMS 2.0, 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from connector.core.receiver import MessageListener
from connector.errors import SessionStateError
from connector.messaging.client import Consumer, ReceivedMessage
from connector.messaging.polling import Poller

Listener = Callable[[ReceivedMessage], object]


class ConsumerOwner(Protocol):
    """The part of a session that a consumer needs."""

    @property
    def closing(self) -> bool:
        """Whether the session is closed, or about to be."""

    def receive(self, consumer: SessionConsumer, timeout: float | None) -> ReceivedMessage | None:
        """Returns the next message of a consumer, as :meth:`Consumer.receive`."""

    def listen(self, consumer: SessionConsumer, listener: Listener | None) -> None:
        """Sets or removes the listener of a consumer, as :meth:`Consumer.listen`."""

    def remove(self, consumer: SessionConsumer) -> None:
        """Closes the poller of a closed consumer as soon as its messages are settled."""


class SessionConsumer(Consumer):
    """A consumer of a :class:`connector.core.session.CoreSession`.

    Args:
        ends_with_it: whether the subscription ends with its consumer, together with unsettled messages.
    """

    def __init__(self, session: ConsumerOwner, poller: Poller, *, ends_with_it: bool = False) -> None:
        self._session = session
        self.poller = poller
        self.ends_with_it = ends_with_it
        self.receiver: MessageListener | None = None
        """The listener, as the receiver of the messages."""
        self.closed = False

    def receive(self, timeout: float | None = None) -> ReceivedMessage | None:
        return self._session.receive(self, timeout)

    def receive_nowait(self) -> ReceivedMessage | None:
        return self._session.receive(self, 0.0)

    def messages(self, timeout: float | None = None) -> Iterator[ReceivedMessage]:
        while not self.closed:
            try:
                message = self._session.receive(self, timeout)
            except SessionStateError:
                if self.closed or self._session.closing:
                    return  # another thread closed the consumer between two messages
                raise
            if message is None:
                return
            yield message

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self.messages()

    def listen(self, listener: Listener | None) -> None:
        self._session.listen(self, listener)

    def close(self) -> None:
        if not self.closed:
            self.closed = True  # first, because this ends a receive in another thread
            self._session.remove(self)
