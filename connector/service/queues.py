"""The destinations of a deployment: their roles, and their numbers of messages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

from connector.config.loading import Configuration
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.roles import Looking
from connector.messaging.subscription import DestinationInfo, SubscriptionInfo, TopicSubscription
from connector.service.assembly import make_event_settings
from connector.service.load_kind import LOADS

INPUT: Final = "input"

_ROLES: Final = {
    "InProgressDestination": "in-progress",
    "ArchiveDestination": "archive",
    "ErrorDestination": "error",
    "UnsubscribedDestination": "unsubscribed",
    "ReplyToDestination": "reply",
    "OutputDestination": "request",
}
"""From the keys of adapter.yaml and of rules that name a destination to the role of that destination."""


def roles(configuration: Configuration) -> dict[Destination, str]:
    """Returns the role of each destination that the configuration names. The first of several roles counts.

    The roles are ``input``, ``in-progress``, ``archive``, ``error``, ``unsubscribed``, ``reply``,
    ``subscription`` (a subscription sends there), ``timer`` (a timer does) and ``request``
    (requests go there).
    """
    connector = configuration.connector
    found = {entry.destination: INPUT for entry in connector.inputs}
    for key, destination in connector.all_destinations:
        found.setdefault(destination, _ROLES[key])
    for subscription in configuration.subscriptions:
        if subscription.sends_to is not None:
            found.setdefault(subscription.sends_to, "subscription")
    for timer in configuration.timers:
        found.setdefault(timer.to, "timer")
    static = configuration.metaobjects.static.get(connector.configuration_meta_object or "")
    if static is not None:
        for properties in (static.defaults, *(entry.properties for entry in static.entries)):
            for key in ("ReplyToDestination", "OutputDestination"):
                if text := properties.get(key, "").strip():  # a blank value is undefined
                    found.setdefault(configuration.destination(text), _ROLES[key])
    return found


def role_of(destination: Destination, configuration: Configuration) -> str | None:
    """Returns the role of a destination, of :func:`roles` or ``load`` (a loader takes lots from there)."""
    application = configuration.connector.application_name
    if any(kind.is_queue(destination, application) for _, kind in LOADS.usable()):
        return "load"
    return roles(configuration).get(destination)


def find_destinations(configuration: Configuration, provider: AdapterProvider) -> list[DestinationInfo]:
    """Returns queues and topics with the numbers of their messages, and subscriptions and lots below them.

    A broker does not list its queues, so these are then the queues of the configuration and of lots, and the
    topics of its inputs.

    Raises:
        ProviderError: the provider cannot be read.
    """
    with contextlib.closing(provider.existing()) as connection:
        if provider.capabilities.shows_all:
            return list(connection.destinations())
        inputs = make_event_settings(configuration, provider, "").inputs
        known = _queues_of_broker(connection, roles(configuration))
        return [*known, *_topics([one.source for one in inputs])]


def _queues_of_broker(connection: Looking, has: Mapping[Destination, str]) -> list[DestinationInfo]:
    """Returns the queues of the configuration that a broker has, because it lists only those with lots."""
    told = {info.destination: info for info in connection.destinations()}
    found = []
    for queue in (one for one in has if one.is_queue and not one.view):
        with contextlib.suppress(UnknownDestination):
            info = told.pop(queue, None)
            found.append(info or DestinationInfo(queue, waiting=sum(1 for _ in connection.browse(queue))))
    return [*found, *told.values()]


def _topics(sources: Iterable[Destination | TopicSubscription]) -> list[DestinationInfo]:
    """Returns the topics of the inputs with their subscriptions, whose messages a broker does not count."""
    found: dict[Destination, list[SubscriptionInfo]] = {}
    for source in sources:
        if isinstance(source, TopicSubscription):
            found.setdefault(source.topic, []).append(SubscriptionInfo(source, 0, 0, 0))
    return [DestinationInfo(topic, subscriptions=infos) for topic, infos in found.items()]
