"""The document of the messages in error: groups of alike reasons, and what is to be said beside them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from connector.config.loading import Configuration
from connector.errors import UnknownDestination
from connector.messaging.destination import Destination
from connector.messaging.message import Message
from connector.messaging.provider_kind import AdapterProvider
from connector.messaging.roles import Browsing
from connector.operate.errors import error_groups
from connector.service.status_document import stopped_loads


def error_document(
    configuration: Configuration, provider: AdapterProvider, sources: Sequence[Destination]
) -> dict[str, Any]:
    """Returns ``groups``, ``sources``, ``unreadable`` messages and ``stopped`` loads.

    Args:
        sources: queues. An error destination to which no message has ever come is empty.

    Raises:
        UnknownDestination: there is no such queue.
        ProviderError: a queue cannot be read.
    """
    unreadable: list[dict[str, str]] = []
    with contextlib.closing(provider.existing()) as connection:
        found = [_look(connection, one, configuration, unreadable) for one in sources]
        groups = error_groups(itertools.chain.from_iterable(found))
    state = provider.existing_state(configuration.connector.application_name)
    stopped = [
        {"subscription": row["subscription"], "reason": row["reason"]}
        for row in stopped_loads(state.instances())
    ]
    return {
        "groups": [one.document() for one in groups],
        "sources": list(map(str, sources)),
        "unreadable": unreadable,
        "stopped": stopped,
    }


def _look(
    connection: Browsing, source: Destination, configuration: Configuration, unreadable: list[dict[str, str]]
) -> Iterator[Message]:
    def note(message: Message, reason: str) -> None:
        unreadable.append({"id": message.message_id or "", "source": str(source), "reason": reason})

    try:
        return connection.browse(source, note)
    except UnknownDestination:
        if source not in configuration.connector.copies.errors:
            raise
        return iter(())
