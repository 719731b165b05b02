"""The roles of the destinations of a deployment, and a warning of unknown queues."""

from __future__ import annotations

from typing import Final

from connector.cli.common import note
from connector.config.loading import Configuration
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider_kind import AdapterProvider
from connector.text.names import nearest

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
    ``subscription`` (a subscription sends there) and ``request`` (requests go there).
    """
    connector = configuration.connector
    found = {entry.destination: INPUT for entry in connector.inputs}
    for key, destination in connector.own_destinations.items():
        found.setdefault(destination, _ROLES[key])
    for subscription in configuration.subscriptions:
        if subscription.sends_to is not None:
            found.setdefault(subscription.sends_to, "subscription")
    static = configuration.metaobjects.static.get(connector.configuration_meta_object or "")
    if static is not None:
        for properties in (static.defaults, *(rule.properties for rule in static.rules)):
            for key in ("ReplyToDestination", "OutputDestination"):
                if text := properties.get(key, "").strip():  # a blank value is undefined
                    found.setdefault(parse_destination(text), _ROLES[key])
    return found


def warn_of_new_queue(
    destination: Destination, configuration: Configuration, provider: AdapterProvider
) -> None:
    """Warns on stderr that a queue is new and not in the configuration. The name may be misspelt.

    Args:
        provider: connected before, so that the root exists.
    """
    if not destination.is_queue:
        return
    named = {one.base for one in roles(configuration)}
    static = configuration.metaobjects.static.get(configuration.connector.configuration_meta_object or "")
    if static is not None:
        named.update(rule.input_destination for rule in static.rules if rule.input_destination is not None)
    if destination.base in named:
        return
    there = provider.existing().names()
    if destination.base in there:
        return
    name = destination.base.name
    close = nearest(name, sorted(one.name for one in named if one.is_queue))
    close = close or nearest(name, sorted(one.name for one in there if one.is_queue))
    guess = f"; did you mean queue://{close}?" if close else ""
    note(f"connector: {destination.base} is new, and the configuration does not name it{guess}")
