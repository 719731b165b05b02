"""Rules for attaching to subscriptions of a topic, and for subscriptions that are in the way (Qpid JMS).

These functions have no effects. A provider finds the existing subscriptions under a lock, asks
:func:`decide`, and acts. Within a client id, durable subscriptions have one set of names, shared or not.
Shared non-durable subscriptions have another set.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from connector.errors import DestinationError, SubscriptionError
from connector.messaging.message import check_text
from connector.messaging.selector import compile_selector
from connector.messaging.subscription import TopicSubscription


@dataclass(frozen=True, slots=True)
class Existing:
    """A subscription that the provider found under the wanted client id and name.

    Args:
        consumers: number of consumers now, without the asking application's.
        own: number of other consumers of the asking application.
    """

    subscription: TopicSubscription
    consumers: int
    own: int = 0


class Attach(Enum):
    """The action of a provider for a new consumer."""

    CREATE = "create"
    """Make the subscription, because there is none."""
    USE = "use"
    """Attach to the existing subscription."""
    REPLACE = "replace"
    """Make a new subscription instead of the old one, whose backlog is lost. The provider warns."""


def check(wanted: TopicSubscription) -> None:
    """Checks a subscription by itself.

    Raises:
        SelectorError: the selector is not valid.
        DestinationError, SubscriptionError: as :func:`check_names`.
    """
    check_names(wanted)
    if wanted.selector:
        compile_selector(wanted.selector)


def check_names(wanted: TopicSubscription) -> None:
    """Checks a subscription by itself, without the selector, which a broker may read in its own way.

    Raises:
        DestinationError: the destination is no topic.
        SubscriptionError: a necessary name or client id is missing, or a name is useless.
    """
    if wanted.topic.kind != "topic":
        raise DestinationError(f"'{wanted.topic}' is no topic: only topics have subscriptions")
    for what, text in (("name of a subscription", wanted.name), ("client id", wanted.client_id)):
        try:
            check_text(text)
        except ValueError as error:
            raise SubscriptionError(f"{text!r} is no {what}: {error}") from None
    kind = _kind(wanted)
    if (wanted.durable or wanted.shared) and not wanted.name:
        raise SubscriptionError(f"a {kind} subscription of {wanted.topic} needs a name: give it one")
    if wanted.name and not (wanted.durable or wanted.shared):
        raise SubscriptionError(
            f"subscription {wanted.name!r} of {wanted.topic} has a name but is neither durable nor shared: "
            "leave out the name, or make the subscription durable or shared"
        )
    if wanted.durable and not wanted.shared and not wanted.client_id:
        raise SubscriptionError(
            f"the durable subscription {wanted.name!r} of {wanted.topic} is not shared, so it belongs to one "
            "client: give the connection a client id, or share the subscription"
        )


def decide(
    wanted: TopicSubscription, durable: Existing | None, non_durable_shared: Existing | None
) -> Attach:
    """Returns the action of the provider for a new consumer of ``wanted``.

    Args:
        wanted: passed :func:`check`.
        durable: the durable subscription of that client id and name, shared or not.
        non_durable_shared: the shared non-durable subscription of that client id and name.

    Raises:
        SubscriptionError: a subscription or a consumer is in the way.
    """
    if wanted.durable:
        return _decide_durable(wanted, durable)
    if wanted.shared:
        return _decide_non_durable_shared(wanted, non_durable_shared)
    return Attach.CREATE  # a subscription of one consumer, without a name, is never in the way


def same_details(one: TopicSubscription, other: TopicSubscription) -> bool:
    """Whether two subscriptions of the same name get the same messages: topic, selector and no-local."""
    return (one.topic, one.selector, one.no_local) == (other.topic, other.selector, other.no_local)


def is_local(subscription: TopicSubscription, own: str, sender: str) -> bool:
    """Whether messages are local to a subscription with no-local (JMS 2.0, 8.3.2).

    Args:
        own: the origin of the subscription.
        sender: the origin of the messages. Empty if unknown.
    """
    return sender in (own, subscription.client_id) if sender else False


def _decide_durable(wanted: TopicSubscription, found: Existing | None) -> Attach:
    if found is None:
        return Attach.CREATE
    if found.subscription.shared != wanted.shared:
        raise SubscriptionError(
            f"{_title(wanted)} cannot be made: a {_kind(found.subscription)} subscription of that name "
            f"exists, of {found.subscription.topic}; unsubscribe it first, or choose another name"
        )
    if found.consumers and not wanted.shared:
        raise SubscriptionError(
            f"{_title(wanted)} has a consumer already, and is not shared: close that consumer first, or make "
            "a shared subscription under another name"
        )
    if same_details(found.subscription, wanted):
        return Attach.USE
    _refuse_while_consumed(wanted, found)
    return Attach.REPLACE


def _decide_non_durable_shared(wanted: TopicSubscription, found: Existing | None) -> Attach:
    if found is None:
        return Attach.CREATE
    if same_details(found.subscription, wanted):
        return Attach.USE
    _refuse_while_consumed(wanted, found)
    return Attach.REPLACE  # the last consumer has died, so the subscription has ended, but still exists


def _refuse_while_consumed(wanted: TopicSubscription, found: Existing) -> None:
    if found.consumers + found.own:
        whose = "" if found.consumers else " of another instance of this application"
        raise SubscriptionError(
            f"{_title(wanted)} has {_differences(wanted, found.subscription)}, and consumers{whose}: "
            "close the consumers first, or ask for the subscription as it is"
        )


def _differences(wanted: TopicSubscription, found: TopicSubscription) -> str:
    texts = []
    if found.topic != wanted.topic:
        texts.append(f"the topic {found.topic}")
    if found.selector != wanted.selector:
        texts.append(f"the selector {found.selector!r}" if found.selector else "no selector")
    if found.no_local != wanted.no_local:
        texts.append("no-local" if found.no_local else "messages of its own connection too")
    return " and ".join(texts)


def _kind(subscription: TopicSubscription) -> str:
    shared = "shared " if subscription.shared else ""
    return shared + ("durable" if subscription.durable else "non-durable")


def _title(subscription: TopicSubscription) -> str:
    whose = f" of client {subscription.client_id!r}" if subscription.client_id else ""
    return f"the {_kind(subscription)} subscription {subscription.name!r}{whose}"
