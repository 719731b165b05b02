"""Inputs: what tells one entry of InputDestination from the others."""

from __future__ import annotations

from typing import NamedTuple

from connector.messaging.destination import Destination


class Input(NamedTuple):
    """One entry of InputDestination. Two entries may have one destination.

    Args:
        selector: of the messages that are taken from a queue. Empty = all, and for a topic.
        subscription: of a topic, its name in the configuration. Empty for a queue.
    """

    destination: Destination
    selector: str = ""
    subscription: str = ""

    def __str__(self) -> str:
        """Returns the destination, with the text that distinguishes two inputs of one destination."""
        if self.subscription:
            return f"{self.destination} (subscription {self.subscription!r})"
        return f"{self.destination} (selector {self.selector!r})" if self.selector else str(self.destination)
