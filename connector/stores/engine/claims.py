"""Claims of a local provider."""

from __future__ import annotations

from typing import Any

from connector.messaging.claim import Claim
from connector.messaging.destination import Destination
from connector.messaging.history import file_name
from connector.messaging.message import Message
from connector.stores.engine.channel import Channel, Owner


class LocalClaim(Claim):
    """A claim of a local provider. A store may have a subclass.

    Args:
        reference: finds the message in a task. Picklable.
        message: headers and properties, never changed.
        home: the part of a channel that the message goes back to.
        owner: the owner. None = no owner.
        destination: where the message was taken from. None = the destination of ``home``.
        waits: whether the message was left there to wait.
    """

    __slots__ = (
        "_client_id",
        "_message",
        "cycle",
        "destination",
        "home",
        "in_progress",
        "reference",
        "sequence",
        "subscription",
        "waits",
    )
    reference: Any
    in_progress: bool
    subscription: str
    waits: bool

    def __init__(
        self,
        reference: Any,
        message: Message,
        home: Channel,
        owner: Owner | None,
        destination: Destination | None = None,
        *,
        in_progress: bool = False,
        waits: bool = False,
    ) -> None:
        self.reference = reference
        self.home = home
        self.subscription = home.subscription
        self.destination = destination or home.destination
        self._client_id, self.cycle, self.sequence = owner or ("", 0, 0)
        self.input = None
        self.in_progress = in_progress
        self.waits = waits
        self._message = message

    @property
    def owner(self) -> Owner | None:
        """The owner. None = no owner."""
        return Owner(self._client_id, self.cycle, self.sequence) if self._client_id else None

    @property
    def delivery_count(self) -> int:
        return self._message.delivery_count - 1

    @property
    def message_id(self) -> str:
        return self._message.message_id or ""

    @property
    def group_id(self) -> str | None:
        return self._message.group_id

    @property
    def file_name(self) -> str:
        return file_name(self._message)

    @property
    def duplicate_key(self) -> str:
        return duplicate_key(key_source(self.home, self.destination), self.message_id)

    def headers(self) -> Message:
        return self._message.copy()


def key_source(channel: Channel, destination: Destination) -> str:
    """Returns the text that names a channel in duplicate keys.

    Args:
        channel: that messages are claimed from.
        destination: as the input names it.
    """
    return f"{destination} {channel.subscription}" if channel.subscription else str(destination)


def duplicate_key(source: str, message_id: str) -> str:
    """Returns the duplicate key of a message.

    Args:
        source: as :func:`key_source`.
    """
    return f"{source}|{message_id}".replace("\n", "%0A")
