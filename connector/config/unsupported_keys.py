"""Keys that get a special error text: keys of later versions, and keys that will never exist."""

from __future__ import annotations

from typing import Final


def not_yet(what: str) -> str:
    """Returns the text of the error for a later version."""
    return f"this version does not have {what} yet"


_KEYS: Final = {
    "subscriptions.http": "HTTP sinks",
    "subscriptions.table": "table sinks",
}

REFUSED: Final = {
    "InputDestination.client_id": ("the client id of an input is the ApplicationName", "it left out"),
}
"""Keys that users may expect but that will never exist, with the found and the expected text."""

UNSUPPORTED: Final = {key: (not_yet(what), "it left out") for key, what in _KEYS.items()}
"""Keys of later versions, named with their section, with the found and the expected text of the problem."""

PROVIDERS: Final = ("amqp", "jms")
"""Provider types of later versions."""
