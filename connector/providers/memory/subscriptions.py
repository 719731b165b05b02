"""Subscriptions of topics: attached to, left and removed by the rules of seed 003."""

from __future__ import annotations

import logging
from typing import Final

from connector.core.subscriptions import Attach, Existing, check, decide
from connector.errors import SubscriptionError
from connector.messaging.provider import SubscriptionInfo, TopicSubscription
from connector.messaging.selector import compile_selector
from connector.providers.memory.channel import Subscription
from connector.providers.memory.clients import Client
from connector.providers.memory.memory import Memory

_log: Final = logging.getLogger("connector.memory")


def attach(memory: Memory, wanted: TopicSubscription, client: Client) -> Subscription:
    """The subscription that a new consumer of ``client`` gets; it is a member from now on.

    Raises:
        DestinationError, SelectorError, SubscriptionError: see :mod:`connector.core.subscriptions`.
        UnknownDestination: a temporary topic that has ended.
    """
    check(wanted)
    found = _find(memory, wanted.client_id, wanted.name, durable=wanted.durable) if wanted.name else None
    existing = _existing(found, client) if found is not None else None
    todo = decide(wanted, existing if wanted.durable else None, None if wanted.durable else existing)
    if found is not None and todo is Attach.REPLACE:
        _refuse_unacknowledged(found)
        _warn_of_loss(_info(found), "made anew with other details")
        remove(memory, found)
        found = None
    if found is None:
        topic = memory.topic(wanted.topic)
        selector = compile_selector(wanted.selector) if wanted.selector else None
        found = Subscription(memory.store, wanted, selector, client.origin)
        topic[found] = None
    elif not found.members:
        found.origin = client.origin
    found.members.append(client)
    return found


def leave(memory: Memory, subscription: Subscription, client: Client) -> None:
    """A consumer goes; a subscription that is not durable ends with its last."""
    subscription.members.remove(client)
    if not subscription.members and not subscription.details.durable:
        remove(memory, subscription)


def unsubscribe(memory: Memory, name: str, client_id: str) -> SubscriptionInfo:
    """See :meth:`connector.messaging.provider.Connection.unsubscribe`."""
    found = _find(memory, client_id, name, durable=True)
    whose = f" of client {client_id!r}" if client_id else ""
    if found is None:
        raise SubscriptionError(f"there is no durable subscription {name!r}{whose}")
    if found.members:
        raise SubscriptionError(
            f"the subscription {name!r}{whose} of {found.details.topic} has "
            f"{_number(len(found.members), 'consumer')}; end that first"
        )
    _refuse_unacknowledged(found)
    removed = _info(found)
    _warn_of_loss(removed, "removed")
    remove(memory, found)
    return removed


def remove(memory: Memory, subscription: Subscription) -> None:
    """Ends a subscription, with what waits in it."""
    memory.topics.get(subscription.details.topic, {}).pop(subscription, None)
    subscription.end()


def information(memory: Memory) -> list[SubscriptionInfo]:
    """All subscriptions, by topic and name."""
    found = [_info(one) for topic in memory.topics.values() for one in topic]
    found.sort(key=lambda one: (one.subscription.topic, one.subscription.name, one.subscription.client_id))
    return found


def _info(one: Subscription) -> SubscriptionInfo:
    numbers = (one.count, len(one.delivered), one.expired.count, one.error.count)
    return SubscriptionInfo(one.details, len(one.members), *numbers)


def _warn_of_loss(ended: SubscriptionInfo, how: str) -> None:
    if kept := ended.kept():
        name, topic = ended.subscription.name, ended.subscription.topic
        _log.warning(
            "the messages of a subscription are lost",
            extra={"subscription": name, "destination": str(topic), "reason": how, "lost": kept},
        )


def _find(memory: Memory, client_id: str, name: str, *, durable: bool) -> Subscription | None:
    for topic in memory.topics.values():
        for subscription in topic:
            details = subscription.details
            if (details.client_id, details.name, details.durable) == (client_id, name, durable):
                return subscription
    return None


def _existing(found: Subscription, client: Client) -> Existing:
    own = [m for m in found.members if m.application and m.application == client.application]
    return Existing(found.details, len(found.members) - len(own), len(own))


def _refuse_unacknowledged(found: Subscription) -> None:
    if found.delivered:
        raise SubscriptionError(
            f"the subscription {found.details.name!r} of {found.details.topic} has "
            f"{_number(len(found.delivered), 'message')} not acknowledged, or in an open transaction; "
            "end that first"
        )


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"
