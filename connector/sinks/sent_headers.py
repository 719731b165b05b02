"""The headers that a rule gives to the messages that are sent for its object and verb."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from connector.businessobjects.metadata import (
    is_blank,
    read_delivery_delay,
    read_delivery_mode,
    read_priority,
    read_time_to_live,
)
from connector.businessobjects.rules import set_format
from connector.messaging.message import Message, delivery_time_after, expiration_after


class SentHeaders(NamedTuple):
    """Headers that the configuration gives to a message. None = the configuration does not set the header.

    Args:
        format: goes into the header or property that ``MessageFormatProperty`` names.
        time_to_live: milliseconds from now to JMSExpiration. 0 = never.
        delivery_delay: milliseconds from now to JMSDeliveryTime. 0 = no delay.
    """

    format: str | None = None
    priority: int | None = None
    delivery_mode: int | None = None
    time_to_live: int = 0
    delivery_delay: int = 0

    @classmethod
    def read(cls, said: Mapping[str, str]) -> Self:
        """Reads the properties of a rule.

        Raises:
            ValueError: one of these values is not valid.
        """
        priority, mode = said.get("Priority", ""), said.get("DeliveryMode", "")
        lives, waits = said.get("TimeToLive", ""), said.get("DeliveryDelay", "")
        return cls(
            said.get("OutputFormat"),
            None if is_blank(priority) else read_priority(priority),
            None if is_blank(mode) else read_delivery_mode(mode),
            0 if is_blank(lives) else read_time_to_live(lives),
            0 if is_blank(waits) else read_delivery_delay(waits),
        )

    def set_on(self, message: Message, format_property: str) -> None:
        """Sets the headers on a message.

        Args:
            format_property: MessageFormatProperty.
        """
        if self.priority is not None:
            message.priority = self.priority
        if self.delivery_mode is not None:
            message.delivery_mode = self.delivery_mode
        message.expiration = expiration_after(self.time_to_live)
        message.delivery_time = delivery_time_after(self.delivery_delay)
        if self.format is not None:
            set_format(message, self.format, format_property)
