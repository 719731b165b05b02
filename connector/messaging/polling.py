"""How a connection of a provider takes messages: the contracts of a poller and of a waiter.

Both belong to a :class:`~connector.messaging.provider.Connection`, and both are for its thread only.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Protocol

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.selector import compile_selector
from connector.messaging.settlement import Settlement


class Poller(Protocol):
    """Claims messages of one destination: the highest priority first, then the oldest message.

    The class of a provider inherits from this class, and so gets :meth:`take`.
    """

    destination: Destination
    expired: int
    """Messages found expired since the poller was made. 0 without ``shows_all``.

    A message that has expired, or was delivered too often, is put aside before a selector is evaluated.
    """

    subscription: str = ""
    """As :attr:`.Claim.subscription` of the claims."""
    wakes: bool = True
    """Set by the caller: whether a message for this poller ends a wait. A local provider may ignore it."""
    asks: bool = False
    """Set by the caller: whether a claim that finds nothing asks the broker, and waits for its answer.

    Without a question, a claim only looks at what has come. A local provider always knows what waits.
    """
    again: bool = False
    """Set by the caller: whether a claim takes only messages whose events come again later."""

    @property
    def is_full(self) -> bool:
        """Whether an open transaction of a broker holds as many messages or bytes as it may.

        Then more messages may wait. Always False without the capability ``transactions``.
        """
        return False

    @property
    def obstacle(self) -> str:
        """Why no message can be taken now, although the provider works. Empty = nothing is in the way."""
        return ""

    def claim(self, cycle: int, numbers: range) -> Sequence[Claim]:
        """Claims up to ``len(numbers)`` messages. Never blocks, unless a broker is asked.

        A broker may call a queue empty although a message is on its way. So with the capability
        ``transactions`` a claim of the first message looks again, and waits a tenth of a second. The second
        look may be that of a later call.

        A failure after the first claim ends the list, because those claims already belong to this client. The
        next call raises the failure and claims nothing.

        Args:
            numbers: the first claim gets the first number as its sequence, the second claim the second
                number, and so on. The numbers rise. A connection uses a pair of cycle and number once.

        Returns:
            the claims in the order of their numbers. Fewer than asked for only if no other message waits,
            after a failure, or if :attr:`is_full`. If the client library fetches ahead, also while further
            messages are on their way. Empty if no message waits.

        Raises:
            ProviderError: the destination cannot be read, or the poller is closed. Or a broker was asked, and
                does not answer.
        """

    def take(self, cycle: int, sequence: int) -> Claim | None:
        """Claims one message, as :meth:`claim`. Returns None if no message waits."""
        claims = self.claim(cycle, range(sequence, sequence + 1))
        return claims[0] if claims else None

    def due_in(self) -> float:
        """Returns the seconds until the next delayed message is due, as far as is known. Infinity = none."""
        return math.inf

    def set_min_age(self, seconds: float) -> None:
        """Claims a message only if two looks found it the same, ``seconds`` apart by this client's own clock.

        Called before the first claim, and only with the capability ``min_age``.
        """
        return

    def settles_in(self) -> float:
        """Returns the seconds until a message may be complete that waits for its second look.

        Never 0. Infinity = no message waits for it.
        """
        return math.inf

    def delayed(self) -> Iterator[tuple[Message, str]]:
        """Yields the delayed messages that the poller would take, each with the duplicate key of a claim.

        A broker yields the messages whose events come again later. None without the capability ``delays`` or
        ``retries_later``.

        Raises:
            ProviderError: they cannot be read.
        """
        yield from ()

    def has_bound_messages(self, others: Sequence[str] = ()) -> bool:
        """Whether messages wait for this adapter alone, also in queues of the adapter, and for this poller.

        Args:
            others: selectors of further pollers of the same queue. They take the messages that they match.

        Raises:
            ProviderError: the messages cannot be read.
        """
        matches = [compile_selector(one).matches for one in others]
        waiting = (message for message, _ in self.delayed() if "connector_retries" in message.properties)
        return any(not any(match(message) for match in matches) for message in waiting)

    def close(self) -> None:
        """Closes the poller. Repeatable.

        A consumer leaves its subscription. A subscription that is not durable ends with its last consumer. A
        later consumer of that subscription gets no message that waited before the end. Messages that were
        claimed at the end may come again.

        Earlier claims stay claims. Claims of a subscription that ends have to be settled or given back before
        this call.
        """


class Arrivals(Protocol):
    """The messages that a broker pushes to one client from several queues, for a client that waits for them.

    Only with the capability ``transactions``. Every message belongs to the transaction in which it arrives,
    also if nobody has taken it yet. So a message that arrives shortly before a settlement may be settled
    without its copy. For one thread, except :meth:`wake`.
    """

    @abstractmethod
    def add(self, queue: Destination, selector: str = "", *, one: bool = False) -> int:
        """Receives from a queue from now on. Returns the number that names these messages.

        Args:
            queue: a whole queue.
            selector: text, handed to the broker. Empty = all messages.
            one: take at most one message between two settlements. The other messages stay in the queue. Such
                a message is found some milliseconds later.

        Raises:
            SelectorError: the broker refuses the selector.
            DestinationError: there is no such queue, and the broker makes none.
            SubscriptionError: the broker refuses the queue.
            ProviderError: the connection has failed, or the broker does not answer.
        """

    @abstractmethod
    def remove(self, number: int) -> None:
        """Receives no more for a number of :meth:`add`. Repeatable, never raises."""

    @abstractmethod
    def take(self, seconds: float, most: int) -> Sequence[tuple[int, Claim]]:
        """Returns messages that have arrived, each with the number of :meth:`add`.

        Args:
            seconds: until the first message has to come.
            most: messages, at most.

        Raises:
            ProviderError: the connection has failed.
        """

    @abstractmethod
    def settle(self, settlements: Sequence[Settlement]) -> None:
        """Settles all messages that were taken and not yet settled, with the copies of the settlements.

        A message without a settlement is acknowledged, too.

        Raises:
            SettlementError: a copy is refused. Nothing was settled, and the messages come again.
            ProviderError: the connection has failed. The outcome is unknown.
        """

    @abstractmethod
    def wake(self) -> None:
        """Ends the present wait of :meth:`take`, or else the next one. For any thread, never raises."""


class Waiter(Protocol):
    """Reports messages that arrive for the pollers of a connection. Only for the thread of that connection.

    A caller calls :meth:`begin`, polls, and then waits. A message that arrives after :meth:`begin` may be
    reported although the poll has taken the message. A message may also arrive unreported, so a caller has to
    poll from time to time as well. Messages that the connection itself gives back are not reported. With the
    capability ``transactions`` every waiting message is reported, because the waiter receives it.
    """

    @abstractmethod
    def begin(self) -> bool:
        """Begins a poll: forgets earlier arrivals, because the poll sees them.

        Returns:
            whether the waiter watches everything that the pollers take from. False if a source can only be
            polled.
        """

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Waits ``seconds`` at most until a message arrives, or until a call of ``wake`` ends the wait.

        That is :meth:`~connector.messaging.roles.Receiving.wake` of the connection.

        Returns:
            whether a message has arrived since :meth:`begin`. Also True if the connection has ended.
        """
