"""The lives of messages in a deployment, and the places where their messages are now."""

from __future__ import annotations

from connector.config.loading import Configuration
from connector.messaging.destination import Destination
from connector.messaging.history import EVENT_ID, History, origins_of, plain_text
from connector.messaging.provider_kind import AdapterProvider
from connector.operate.lives import DELAYED, IN_PROGRESS, Life, find_now, read_life


def find_senders(provider: AdapterProvider, history: History, named: str) -> list[Life]:
    """Returns the life of the message for which a message was sent that waits in a queue.

    For a message that the history does not know, because no adapter of this application has taken it.

    Args:
        named: the JMSMessageID of the message that waits.

    Returns:
        one life. Empty if nothing is known.

    Raises:
        ProviderError: the history or a queue cannot be read.
    """
    senders = _senders(provider, named) if provider.check() else []
    return [life for life in (read_life(history, one) for one in senders) if life.events]


def _senders(provider: AdapterProvider, identity: str) -> list[str]:
    """Returns the messages for which a message was sent that waits in a queue."""
    connection = provider.existing()
    try:
        for one in connection.destinations():
            if not one.destination.is_queue:
                continue
            for message in connection.browse(one.destination, ids={identity}):
                if plain_text(message.message_id or "") == plain_text(identity):
                    return list(origins_of(message.properties.get(EVENT_ID)))[-1:]
    finally:
        connection.close()
    return []


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
