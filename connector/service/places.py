"""The places of a deployment where the messages of a life are now."""

from __future__ import annotations

from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.messaging.provider_kind import AdapterProvider
from connector.operate.lives import DELAYED, IN_PROGRESS, Life, find_now


def find_places(configuration: Configuration, provider: AdapterProvider, life: Life) -> list[dict[str, str]]:
    """Returns where the messages of a life are, in the queues of the deployment and of the life.

    For :meth:`connector.operate.lives.Life.as_dict`.

    Raises:
        ProviderError: a queue cannot be read.
    """
    if not provider.check():
        return []
    settings = configuration.connector
    states: dict[Destination, str] = {}
    if settings.copies.in_progress is not None:
        states[settings.copies.in_progress] = IN_PROGRESS
    for queue in provider.delayed_queues(settings.application_name):
        states[queue] = DELAYED
    inputs = [entry.destination.base for entry in settings.inputs]
    of_copies = [destination for _, destination in settings.all_destinations]
    known = [*life.destinations(), *inputs, *of_copies, *states]
    queues = [one for one in known if one.is_queue and not one.view]
    connection = provider.existing()
    try:
        return find_now(
            connection, life.ids, queues, shows_all=provider.capabilities.shows_all, states=states
        )
    finally:
        connection.close()
