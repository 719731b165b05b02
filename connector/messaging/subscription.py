"""Subscriptions and destinations, as requested and as seen by a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connector.messaging.destination import Destination
from connector.messaging.lot import LotInfo
from connector.messaging.selector import selector_text


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """The subscription that a consumer of a topic asks for (Qpid JMS). Equal if all details are equal.

    Args:
        name: of the subscription. Empty = the subscription has a single consumer and ends with that consumer.
        client_id: the owner. Names are unique within a client id. A durable subscription that is not shared
            needs an owner.
        durable: messages are kept while there is no consumer.
        shared: several consumers share the messages.
        selector: text of a message selector. Empty = all messages.
        no_local: leave out local messages. A message is local if it comes from the subscription's client id
            or from its origin. The origin is that of the connection that made the subscription, or that
            attached to it when it had no consumer.
    """

    topic: Destination
    name: str = ""
    client_id: str = ""
    durable: bool = False
    shared: bool = False
    selector: str = ""
    no_local: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "selector", selector_text(self.selector))


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """The details and the message counts of a subscription.

    Args:
        expired, error: numbers of messages put aside: past their expiration, or delivered too often.
    """

    subscription: TopicSubscription
    consumers: int
    waiting: int
    in_progress: int
    expired: int = 0
    error: int = 0
    delayed: int = 0

    def losses(self) -> str:
        """Returns the messages that a removal loses, in words: ``2 waiting, 1 in error``. Empty = none."""
        numbers = (
            (self.waiting, "waiting"),
            (self.delayed, "delayed"),
            (self.in_progress, "in progress"),
            (self.expired, "expired"),
            (self.error, "in error"),
        )
        return ", ".join(f"{number:,} {where}" for number, where in numbers if number)


@dataclass(frozen=True, slots=True)
class DestinationInfo:
    """A destination with numbers of messages. Those of a topic are not yet distributed.

    ``in_progress`` counts the messages of lots, too.
    """

    destination: Destination
    waiting: int = 0
    in_progress: int = 0
    processed: int = 0
    expired: int = 0
    error: int = 0
    subscriptions: Sequence[SubscriptionInfo] = ()
    delayed: int = 0
    lots: Sequence[LotInfo] = ()
