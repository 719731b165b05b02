"""A warning of unknown queues."""

from __future__ import annotations

from connector.cli.common import note
from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.messaging.provider_kind import AdapterProvider
from connector.service.queues import roles
from connector.text.names import nearest


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
