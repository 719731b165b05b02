"""What the destinations of a deployment are for, and which ones it does not know."""

from __future__ import annotations

from typing import Final

from connector.cli.common import note
from connector.config.loading import Configuration
from connector.config.problems import nearest
from connector.messaging.destination import Destination, parse_destination
from connector.messaging.provider_kind import AdapterProvider

INPUT: Final = "input"

_ROLES: Final = {
    "InProgressDestination": "in-progress",
    "ArchiveDestination": "archive",
    "ErrorDestination": "error",
    "UnsubscribedDestination": "unsubscribed",
    "ReplyToDestination": "reply",
    "OutputDestination": "request",
}
"""The keys of adapter.yaml and of rules that name a destination, and what it is for."""


def roles(configuration: Configuration) -> dict[Destination, str]:
    """What each destination that the configuration names is for; the first role where it has several.

    The roles are ``input``, ``in-progress``, ``archive``, ``error``, ``unsubscribed``, ``reply``,
    ``subscription`` (the destination of one) and ``request`` (where requests are sent).
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
                if text := properties.get(key, "").strip():  # a blank one is undefined
                    found.setdefault(parse_destination(text), _ROLES[key])
    return found


def warn_of_new_queue(
    destination: Destination, configuration: Configuration, provider: AdapterProvider
) -> None:
    """Says on stderr that a queue will be made which the configuration does not name: it may be misspelt.

    Args:
        provider: connected before, so that its root is there.
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
