"""Channels: where messages wait and are claimed."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from connector.messaging.destination import Destination

_LOT: Final = "LOT"
"""Begins the owner of a lot. The ids of clients have lower-case letters."""
_TEMPORARY_NAME: Final = re.compile(r"temporary-([0-9a-z]+)-[0-9]+")


class Part(Enum):
    """The parts of a channel."""

    MAIN = ""
    """Messages for delivery."""
    DELAYED = "DELAYED"
    """Messages that wait for a time. When a message is due, a reader moves the message to the main part."""
    EXPIRED = "EXPIRED"
    """Messages that were past their expiration when a client wanted to take them."""
    ERROR = "ERROR"
    """Messages that were delivered too often."""

    __hash__ = object.__hash__  # each part is a single object, and every message looks up a channel


_PARTS: Final = {"EXPIRED": Part.EXPIRED, "RECOVER-ERROR": Part.ERROR, "REJECT-ERROR": Part.ERROR}
"""The name of a virtual destination -> the part of the queue."""


class Channel(NamedTuple):
    """A queue, or a subscription of a topic. Messages wait in a channel and are claimed from it.

    Args:
        destination: the queue, or the topic of the subscription. Never a virtual destination.
        subscription: the key of the subscription's record. Empty for a queue.
    """

    destination: Destination
    subscription: str = ""
    part: Part = Part.MAIN

    @property
    def can_end(self) -> bool:
        """Whether the channel can end before its clients do: a subscription, or a temporary destination.

        A message never makes such a channel.
        """
        return bool(self.subscription) or temporary_owner(self.destination) is not None


def channel_of(queue: Destination) -> Channel:
    """Returns the channel of a queue, or the part of a channel that a virtual destination shows."""
    return Channel(queue.base, part=_PARTS.get(queue.view, Part.MAIN))


class Owner(NamedTuple):
    """The client and the numbers of a claim.

    Args:
        client_id: of the client, or :func:`lot_owner`.
    """

    client_id: str
    cycle: int
    sequence: int


def lot_owner(sequence_id: str) -> str:
    """Returns the owner of the claims of a lot: a client id that no client has. The cycle is the number."""
    return f"{_LOT}{sequence_id}"


def is_lot(client_id: str) -> bool:
    """Whether the owner of a claim is a lot (:func:`lot_owner`)."""
    return client_id.startswith(_LOT)


def temporary_owner(destination: Destination) -> str | None:
    """Returns the client that owns a temporary destination, by the name. None = not temporary."""
    return owner_in(destination.name)


def owner_in(name: str) -> str | None:
    """Returns the same as :func:`temporary_owner`, for the name of a destination."""
    if not name.startswith("temporary-"):  # Most names do not. A regular expression takes longer.
        return None
    match = _TEMPORARY_NAME.fullmatch(name)
    return match[1] if match else None
