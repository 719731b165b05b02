"""The text that names an event for its rows in databases."""

from __future__ import annotations

from typing import Any

from connector.messaging.access import MessageAccess
from connector.messaging.message import AGAIN, Message


def identity_of(key: str | None, access: MessageAccess, reference: Any, message: Message) -> str:
    """Returns the text that names an event.

    If duplicates are eliminated, the copies of a message are one event: its adapter may die after the commit,
    and another instance then processes another copy first.

    A copy that somebody has moved back to an input, or has replayed once more, is another event, but not one
    whose subscriptions are asked again.

    Args:
        key: the duplicate key. None = duplicates are not eliminated.
        message: its headers and properties.

    Raises:
        LookupError, ProviderError: as of ``access.identity``.
    """
    identity = key or access.identity(reference, message)
    properties = message.properties
    if "connector_outcome" in properties and "connector_time" in properties:
        identity = f"{identity}|{properties['connector_time']}"
    if AGAIN in properties:
        identity = f"{identity}|{properties[AGAIN]}"
    return identity
