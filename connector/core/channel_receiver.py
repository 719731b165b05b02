"""The receivers of a channel, and the references that they get (JBoss Messaging Core, 3 and 8)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from connector.core.state import order_key
from connector.errors import ConnectorError
from connector.messaging.message import Message
from connector.messaging.selector import Selector, compile_selector

_log = logging.getLogger("connector.channel")


class NotAccepted(ConnectorError):
    """Raised by :meth:`Receiver.handle`: the receiver does not want this message after all.

    See JBoss Messaging Core, 8.1.2. The receiver may have changed its mind since :meth:`Receiver.accepts`.
    The message is as if it had never been handed over.
    """


class Reference:
    """A message without its body: headers, properties, and the way to the body (JBoss Messaging Core, 3).

    Sorts as messages are delivered: highest priority, then oldest (JBoss Messaging Core, 10).

    Args:
        headers: the message without body.
        load: reads the whole message from its store.
        delivery_count: deliveries begun, this one included; 1 at the first.
    """

    __slots__ = ("_load", "delivery_count", "headers")

    def __init__(self, headers: Message, load: Callable[[], Message], delivery_count: int = 1) -> None:
        self.headers = headers
        self._load = load
        self.delivery_count = delivery_count

    @property
    def message_id(self) -> str:
        """JMSMessageID; empty where the message has none yet."""
        return self.headers.message_id or ""

    @property
    def redelivered(self) -> bool:
        """Whether a receiver may have seen it before."""
        return self.delivery_count > 1

    def has_expired(self) -> bool:
        """Whether it is past its expiration."""
        return self.headers.has_expired()

    def load(self) -> Message:
        """The whole message, read now.

        Raises:
            MalformedData: it cannot be read as a message.
            LookupError: it is gone: acknowledged, expired, or taken away by hand.
            ProviderError: it cannot be read now.
        """
        message = self._load()
        message.delivery_count = self.delivery_count
        return message

    def again(self) -> Reference:
        """The same message at its next delivery."""
        return Reference(self.headers, self._load, self.delivery_count + 1)

    def __lt__(self, other: Reference) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[int, int, str]:
        return order_key(self.headers.priority, self.headers.timestamp, self.message_id)

    def __repr__(self) -> str:
        return f"Reference({self.message_id!r}, delivery {self.delivery_count})"


class Filter(Protocol):
    """Says which messages are wanted."""

    def accepts(self, reference: Reference) -> bool:
        """Whether the message is wanted. Quick, and without using a channel: it is asked for every message.

        A receiver is asked by a channel that holds the message for it, or is about to. What it does not want
        goes back. A selector, given with the receiver, leaves such messages where they are.
        """


class Receiver(Filter, Protocol):
    """Takes messages from a channel.

    :meth:`Filter.accepts` says in advance whether it would take one. It need not keep its word: between the
    two calls it may have changed, and then :meth:`handle` raises :class:`NotAccepted`.
    """

    @property
    def receiver_id(self) -> str:
        """Names it among the receivers of its channel; the same after a restart for one that is durable."""

    def handle(self, reference: Reference, /) -> bool | None:
        """Takes one message. The channel may be used from here, and from any other thread meanwhile.

        Returns:
            True: a positive acknowledgement, the message is done with. False: a negative one: the receiver
            has it and will acknowledge later, or ask for it again. None: it takes no responsibility, as
            :class:`NotAccepted`.

        Raises:
            NotAccepted: it does not want the message.
            Exception: it is *broken*: the message counts as not delivered and is tried again later.
        """


class SelectorFilter:
    """A filter that is a message selector."""

    def __init__(self, selector: Selector) -> None:
        self._selector = selector

    def accepts(self, reference: Reference) -> bool:
        return self._selector.matches(reference.headers)


class Registration:
    """A receiver of a channel.

    Args:
        receiver: the receiver.
        selector: text of a message selector; empty = all messages that the receiver accepts.

    Raises:
        SelectorError: the selector is not valid.
    """

    def __init__(self, receiver: Receiver, selector: str = "") -> None:
        self.receiver = receiver
        self.selector = selector
        self._compiled = compile_selector(selector) if selector else None

    def wants(self, reference: Reference) -> bool:
        """Whether it wants a message. A receiver that cannot say so does not."""
        if self._compiled is not None and not self._compiled.matches(reference.headers):
            return False
        try:
            return self.receiver.accepts(reference)
        except Exception:
            _log.warning(
                "a receiver cannot say whether it accepts a message",
                extra={"reference": repr(reference)},
                exc_info=True,
            )
            return False
