"""Identifiers: which names a selector may use, and what they mean (JMS 2.0, 3.8.1.1)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Final

from connector.messaging.selectors.nodes import Kind

HEADERS: Final[Mapping[str, tuple[str, Kind]]] = {
    "JMSDeliveryMode": ("delivery_modes(message.delivery_mode)", Kind.STRING),
    "JMSPriority": ("message.priority", Kind.NUMBER),
    "JMSMessageID": ("message.message_id", Kind.STRING),
    "JMSTimestamp": ("message.timestamp", Kind.NUMBER),
    "JMSCorrelationID": ("message.correlation_id", Kind.STRING),
    "JMSType": ("message.type", Kind.STRING),
    "JMSXDeliveryCount": ("message.delivery_count", Kind.NUMBER),
}
"""What is no property of :class:`~connector.messaging.message.Message`: how to get it, what it is."""

_START = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PART = _START | {"Nd", "Mn", "Mc", "Cf"}


def wrong_character(name: str) -> int | None:
    """Index of the first character that no identifier of Java has there."""
    for index, character in enumerate(name):
        if unicodedata.category(character) not in (_PART if index else _START):
            return index
    return None


def kind_of(name: str) -> Kind:
    """What is known about the value of an identifier.

    Raises:
        ValueError: a selector cannot use it; the text says what it can.
    """
    if name in HEADERS:
        return HEADERS[name][1]
    # The specification keeps the prefix for itself: anything else behind it is forbidden or a mistake.
    if name.startswith("JMS") and not name.startswith(("JMSX", "JMS_")):
        usable = ", ".join(header for header in HEADERS if not header.startswith("JMSX"))
        raise ValueError(f"one of the headers that a selector sees ({usable}), or a property")
    return Kind.ANY
