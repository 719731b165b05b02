"""What configurations may say in later versions, so that it is refused by its own name."""

from __future__ import annotations

from typing import Final


def not_yet(what: str) -> str:
    """The text that says so."""
    return f"this version does not have {what} yet"


_REQUESTS = "requests"
_TOPICS = "topics and subscriptions to them"

_KEYS: Final = {
    "http": "the HTTP server",
    "requests": _REQUESTS,
    "connector.ReplyToDestination": _REQUESTS,
    "connector.MessageResponseResultProperty": _REQUESTS,
    "connector.SessionPoolSizeForRequests": _REQUESTS,
    "connector.late_replies": _REQUESTS,
    "connector.response_selector_quoting": _REQUESTS,
    "InputDestination.selector": "message selectors",
    "InputDestination.subscription": _TOPICS,
    "InputDestination.shared": _TOPICS,
    "InputDestination.client_id": _TOPICS,
    "InputDestination.no_local": _TOPICS,
    "subscriptions.reply": "requests that a process serves",
    "subscriptions.http": "HTTP sinks",
    "subscriptions.table": "table sinks",
}

LATER: Final = {key: (not_yet(what), "it left out") for key, what in _KEYS.items()}
"""Key, named with its section -> what is found and what is expected, as a problem says it."""

PROVIDERS: Final = ("sql", "memory", "amqp", "jms")
"""Provider types of later versions."""
