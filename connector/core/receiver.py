"""The receivers of a channel, and the references that receivers get (JBoss Messaging Core, 3 and 8)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from connector.errors import ConnectorError
from connector.messaging.client import ReceivedMessage
from connector.messaging.message import Message, order_key
from connector.messaging.selector import Selector, compile_selector, selector_text

_log = logging.getLogger("connector.channel")


class NotAccepted(ConnectorError):
    """Raised by :meth:`Receiver.handle`: the receiver does not want this message after all.

    See JBoss Messaging Core, 8.1.2. The receiver may decide otherwise after :meth:`Receiver.accepts`.
    The message counts as never handed over.
    """


class Reference:
    """A message without the body: headers, properties, and the way to the body (JBoss Messaging Core, 3).

    References sort in the order of delivery: highest priority, then oldest (JBoss Messaging Core, 10).

    Args:
        load: reads the whole message from the store.
        delivery_count: begun deliveries, this delivery included. 1 at the first.
        acknowledge: acknowledges the message. None = only the return value of the receiver does.
    """

    __slots__ = ("_acknowledge", "_load", "delivery_count", "headers")

    def __init__(
        self,
        headers: Message,
        load: Callable[[], Message],
        delivery_count: int = 1,
        acknowledge: Callable[[], None] | None = None,
    ) -> None:
        self.headers = headers
        self._load = load
        self.delivery_count = delivery_count
        self._acknowledge = acknowledge

    @property
    def message_id(self) -> str:
        """JMSMessageID. Empty if the message has no id yet."""
        return self.headers.message_id or ""

    @property
    def redelivered(self) -> bool:
        """Whether a receiver may have seen the message before."""
        return self.delivery_count > 1

    def has_expired(self) -> bool:
        """Whether the message has expired."""
        return self.headers.has_expired()

    def load(self) -> Message:
        """Reads and returns the whole message.

        Raises:
            MalformedData: the data cannot be read as a message.
            LookupError: the message is gone: acknowledged, expired, or taken away by hand.
            ProviderError: the message cannot be read now.
        """
        message = self._load()
        message.delivery_count = self.delivery_count
        return message

    def acknowledge(self) -> None:
        """Acknowledges the message for its receiver. From a synchronous channel, does nothing.

        A session acknowledges as its mode says. Raises as
        :meth:`connector.messaging.client.ReceivedMessage.acknowledge`.
        """
        if self._acknowledge is not None:
            self._acknowledge()

    def next_delivery(self) -> Reference:
        """Returns the reference of the next delivery of this message."""
        return Reference(self.headers, self._load, self.delivery_count + 1, self._acknowledge)

    def __lt__(self, other: Reference) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[int, int, str]:
        return order_key(self.headers.priority, self.headers.timestamp, self.message_id)

    def __repr__(self) -> str:
        return f"Reference({self.message_id!r}, delivery {self.delivery_count})"


class Filter(Protocol):
    """A filter of messages."""

    def accepts(self, reference: Reference) -> bool:
        """Whether the message is wanted. Called for every message. Must be quick and use no channel.

        The channel has the message already, or is about to take the message. An unwanted message goes back.
        A selector, given with the receiver, leaves such messages in place.
        """


class Receiver(Filter, Protocol):
    """A receiver of messages from a channel.

    :meth:`Filter.accepts` says in advance whether the receiver would take a message. The receiver may still
    change its mind, and then :meth:`handle` raises :class:`NotAccepted`.
    """

    @property
    def receiver_id(self) -> str:
        """Name of the receiver, unique in the channel.

        A durable receiver has the same name after a restart.
        """

    def handle(self, reference: Reference, /) -> bool | None:
        """Takes one message. The receiver and any other thread may use the channel meanwhile.

        Returns:
            True is a positive acknowledgement: the message is done. False is a negative acknowledgement: the
                receiver has the message and will acknowledge later, or ask for it again. None refuses the
                message, like :class:`NotAccepted`.

        Raises:
            NotAccepted: the receiver does not want the message.
            Exception: the receiver is *broken*. The message counts as not delivered and is tried again later.
        """


class MessageListener:
    """A listener of a program, as a receiver. The listeners of sessions are such receivers, too.

    Args:
        listener: called with each message. The message is done when the listener returns.
        receiver_id: name of the receiver.
    """

    def __init__(self, listener: Callable[[ReceivedMessage], object], receiver_id: str = "listener") -> None:
        self.receiver_id = receiver_id
        self._listener = listener

    def accepts(self, reference: Reference) -> bool:
        return True

    def handle(self, reference: Reference, /) -> bool:
        self._listener(ReceivedMessage.of(reference.load(), reference.acknowledge))
        return True


class Registration:
    """A receiver of a channel, with a selector.

    Args:
        selector: text of a message selector. Empty = all messages that the receiver accepts.

    Raises:
        SelectorError: the selector is not valid.
    """

    def __init__(self, receiver: Receiver, selector: str = "") -> None:
        self.receiver = receiver
        self.selector = selector_text(selector)
        self._compiled = _compile(selector)

    def wants(self, reference: Reference) -> bool:
        """Whether the receiver wants a message. A receiver that raises does not want the message."""
        if self._compiled is not None and not self._compiled.matches(reference.headers):
            return False
        try:
            return self.receiver.accepts(reference)
        except Exception:
            _log.warning(
                "the method accepts of a receiver raised an exception",
                extra={"reference": repr(reference)},
                exc_info=True,
            )
            return False


def _compile(selector: str) -> Selector | None:
    """Returns a compiled selector. None = the text is blank, which every message matches."""
    text = selector_text(selector)
    return compile_selector(text) if text else None
