"""Channels: where messages wait, and who has claimed them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from connector.messaging.destination import Destination


class Part(Enum):
    """The parts of a channel."""

    MAIN = ""
    """Messages for delivery."""
    EXPIRED = "EXPIRED"
    """Messages that were past their expiration when somebody wanted to take them."""
    ERROR = "ERROR"
    """Messages that were delivered too often."""

    __hash__ = object.__hash__  # there is one of each, and a channel is looked up for every message


class Channel(NamedTuple):
    """A queue, or a subscription of a topic; messages wait in it and are claimed from it.

    Args:
        destination: the queue, or the topic of the subscription. Never a virtual destination.
        subscription: the key of the subscription's record; empty for a queue.
        part: of the channel.
    """

    destination: Destination
    subscription: str = ""
    part: Part = Part.MAIN


class Owner(NamedTuple):
    """Who has claimed a message.

    Args:
        client_id: of the client.
        cycle, sequence: of the claim.
    """

    client_id: str
    cycle: int
    sequence: int
