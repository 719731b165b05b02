"""How many messages a consumer of Qpid JMS has fetched ahead: as many as fit into a number of bytes.

Qpid JMS counts messages, and fixes their number when a consumer is made. But whenever it asks the broker for
more, it reads the number from an inner object of the consumer. This file sets the number there, because no
public method does. A version of Qpid JMS without that object fetches as many messages as its URL says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

_CONSUMER: Final = "org.apache.qpid.jms.JmsMessageConsumer"
_KINDS: Final = ("QueuePrefetch", "TopicPrefetch", "DurableTopicPrefetch")
_GROWTH: Final = 4
"""A new consumer fetches this many times as many messages as have come, because these show the size."""


class Credit:
    """The number of messages of one consumer.

    Args:
        info: the inner object of the consumer.
        most: messages, at most.
        size: bytes of the bodies, about.
    """

    def __init__(self, info: Any, most: int, size: int) -> None:
        self._info = info
        self._messages = int(info.getPrefetchSize())
        self._most = most
        self._size = size
        self._received = 0
        self._largest = 1

    @property
    def grows(self) -> bool:
        """Whether further messages would raise the number."""
        return self._messages < min(self._most, self._size // self._largest)

    def note(self, number: int, largest: int) -> bool:
        """Notes messages that have come. Returns whether more of them are fetched ahead from now on.

        Args:
            largest: bytes of the largest body.
        """
        before, self._received = self._messages, self._received + number
        self._largest = max(largest, self._largest // 2, 1)
        self._messages = max(1, min(self._most, self._size // self._largest, self._received * _GROWTH))
        if self._messages != before:
            self._info.setPrefetchSize(self._messages)
        return self._messages > before


def make_consumer(
    jpype: Any, session: Any, make: Callable[[], Any], size: int, largest: int
) -> tuple[Any, Credit | None]:
    """Makes a consumer that begins with as many messages as fit into a number of bytes.

    Args:
        size: bytes of the bodies that are fetched ahead, about.
        largest: bytes of a body, at most.

    Returns:
        the consumer, and its credit. None = the client library is not Qpid JMS, or fetches nothing ahead.
    """
    field = _inner_field(jpype, session)
    if field is None:
        return make(), None
    policy = session.getPrefetchPolicy()
    usual = policy.copy()
    first = max(1, size // max(1, largest))
    try:
        for kind in _KINDS:
            getattr(policy, f"set{kind}")(min(first, int(getattr(usual, f"get{kind}")())))
        consumer = make()
    finally:
        for kind in _KINDS:
            getattr(policy, f"set{kind}")(getattr(usual, f"get{kind}")())
    is_durable = bool(consumer.isDurableSubscription())
    most = int(usual.getConfiguredPrefetch(session, consumer.getDestination(), is_durable, False))
    return consumer, Credit(field.get(consumer), most, size) if most else None


def _inner_field(jpype: Any, session: Any) -> Any:
    """Returns the field of a consumer for its inner object. None = there is none."""
    if str(session.getClass().getName()).startswith("org.apache.qpid.jms."):
        with contextlib.suppress(jpype.JException, TypeError):
            field = jpype.JClass(_CONSUMER).class_.getDeclaredField("consumerInfo")
            field.setAccessible(True)
            return field
    return None
