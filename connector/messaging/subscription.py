"""Subscriptions and destinations, as a program asks for them and sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connector.messaging.destination import Destination


@dataclass(frozen=True, slots=True)
class TopicSubscription:
    """What a consumer of a topic asks for (Qpid JMS). Two of them are the same where all details are.

    Args:
        topic: the topic.
        name: of the subscription; empty for one that belongs to a single consumer and ends with it.
        client_id: whose it is; names are unique within one client id. A subscription that is durable and
            not shared needs one.
        durable: it keeps messages while nobody consumes them.
        shared: several consumers share its messages.
        selector: text of a message selector; empty = all messages.
        no_local: not the local messages. Local is what comes from its client id or its own origin: that of
            the connection that made it, or attached to it when it had no consumer.
    """

    topic: Destination
    name: str = ""
    client_id: str = ""
    durable: bool = False
    shared: bool = False
    selector: str = ""
    no_local: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """A subscription as it stands.

    Args:
        subscription: its details.
        consumers: how many consume it now.
        waiting, in_progress: its messages.
        expired, error: those that it has put aside: past their expiration, or delivered too often.
    """

    subscription: TopicSubscription
    consumers: int
    waiting: int
    in_progress: int
    expired: int = 0
    error: int = 0

    def kept(self) -> str:
        """What goes when it is removed, in words: ``2 waiting, 1 in error``; empty where that is nothing."""
        numbers = (
            (self.waiting, "waiting"),
            (self.in_progress, "in progress"),
            (self.expired, "expired"),
            (self.error, "in error"),
        )
        return ", ".join(f"{number:,} {where}" for number, where in numbers if number)


@dataclass(frozen=True, slots=True)
class DestinationInfo:
    """A destination as it stands; numbers of messages. Those of a topic are not yet distributed."""

    destination: Destination
    waiting: int = 0
    in_progress: int = 0
    processed: int = 0
    expired: int = 0
    error: int = 0
    subscriptions: Sequence[SubscriptionInfo] = ()
