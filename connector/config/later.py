"""Keys that are refused by their own names: those of later versions, and those that will never be."""

from __future__ import annotations

from typing import Final


def not_yet(what: str) -> str:
    """The text that says so."""
    return f"this version does not have {what} yet"


_KEYS: Final = {
    "subscriptions.http": "HTTP sinks",
    "subscriptions.table": "table sinks",
}

REFUSED: Final = {
    "InputDestination.client_id": ("the client id of an input is the ApplicationName", "it left out"),
}
"""Keys that one might look for and that will never be: what is found, and what is expected."""

LATER: Final = {key: (not_yet(what), "it left out") for key, what in _KEYS.items()}
"""Key, named with its section -> what is found and what is expected, as a problem says it."""

PROVIDERS: Final = ("sql", "amqp", "jms")
"""Provider types of later versions."""
