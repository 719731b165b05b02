"""The sink ``destination``: a business object becomes a message in a queue or topic of the same provider."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from typing import NamedTuple

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.metadata import (
    is_blank,
    read_delivery_delay,
    read_delivery_mode,
    read_priority,
    read_time_to_live,
)
from connector.businessobjects.rules import set_format
from connector.businessobjects.types import text_of
from connector.messaging.destination import Destination
from connector.messaging.history import EVENT_ID
from connector.messaging.message import (
    NON_PERSISTENT,
    OF_SENDERS,
    PERSISTENT,
    STANDARD_TYPES,
    Message,
    delivery_time_after,
    expiration_after,
    parse_property,
)
from connector.operate.trace_context import TRACEPARENT
from connector.sinks.contract import Event, PreparedSink, SinkContext, write_body


class SentHeaders(NamedTuple):
    """Headers that the configuration gives to a message. None = the configuration does not set the header.

    Args:
        format: goes into the header or property that ``MessageFormatProperty`` names.
        time_to_live: milliseconds from the conversion to JMSExpiration. 0 = never.
        delivery_delay: milliseconds from the conversion to JMSDeliveryTime. 0 = no delay.
    """

    format: str | None = None
    priority: int | None = None
    delivery_mode: int | None = None
    time_to_live: int = 0
    delivery_delay: int = 0


@dataclass(frozen=True, slots=True)
class DestinationSpec:
    """Recipe for a :class:`DestinationSink`.

    Args:
        destination: None = each message has its own.
        mime_type: their format. None = the connector's default data handler.
        format: goes into the header or property that ``MessageFormatProperty`` names. None = OutputFormat of
            the rule.
    """

    destination: Destination | None
    mime_type: str | None = None
    format: str | None = None

    def open(self, context: SinkContext) -> DestinationSink:
        """Makes the sink.

        Raises:
            ConfigurationError: no data handler serves the MIME type.
        """
        return DestinationSink(self, context)


class DestinationSink(PreparedSink):
    def __init__(self, spec: DestinationSpec, context: SinkContext) -> None:
        self.destination = spec.destination
        self._format = spec.format
        self._properties = context.properties
        self._to_body = context.writer(spec.mime_type)
        self._headers_of = functools.lru_cache(self._read_headers)
        self._format_property = context.format_property
        self._delivery_mode = PERSISTENT if context.persistent else NON_PERSISTENT

    def prepare(self, bo: BusinessObject, event: Event) -> Message:
        """Returns the object in the format of the subscription, with the ids and the group of the event."""
        message_class, body = write_body(self._to_body, bo)
        said = self._headers_of(bo.type, bo.verb or "")
        message = Message(
            body=body,
            message_class=message_class,
            correlation_id=event.message.correlation_id,
            delivery_mode=self._delivery_mode if said.delivery_mode is None else said.delivery_mode,
            priority=event.message.priority if said.priority is None else said.priority,
        )
        message.expiration = expiration_after(said.time_to_live)
        message.delivery_time = delivery_time_after(said.delivery_delay)
        for name in OF_SENDERS:  # keeps the order of a group
            if name in event.message.properties:
                # A foreign sender may have given it a type that brokers refuse.
                with contextlib.suppress(ValueError):
                    value = parse_property(STANDARD_TYPES[name], text_of(event.message.properties[name]))
                    message.set_property(name, value)
        if event.id:
            message.set_property(EVENT_ID, event.id)
        if event.traceparent:
            message.set_property(TRACEPARENT, event.traceparent)
        if said.format is not None:
            set_format(message, said.format, self._format_property)
        return message

    def _read_headers(self, object_name: str, verb: str) -> SentHeaders:
        """Returns the configured headers of messages for an object and verb.

        Raises:
            ValueError: one of these values in the static meta-object is not valid.
        """
        said = self._properties(object_name, verb)
        priority, mode = said.get("Priority", ""), said.get("DeliveryMode", "")
        lives, waits = said.get("TimeToLive", ""), said.get("DeliveryDelay", "")
        return SentHeaders(
            said.get("OutputFormat") if self._format is None else self._format,
            None if is_blank(priority) else read_priority(priority),
            None if is_blank(mode) else read_delivery_mode(mode),
            0 if is_blank(lives) else read_time_to_live(lives),
            0 if is_blank(waits) else read_delivery_delay(waits),
        )
