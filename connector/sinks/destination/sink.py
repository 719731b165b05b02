"""The sink ``destination``: a business object becomes a message in a queue or topic of the same provider."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.types import text_of
from connector.messaging.destination import Destination
from connector.messaging.history import EVENT_ID
from connector.messaging.message import (
    NON_PERSISTENT,
    OF_SENDERS,
    PERSISTENT,
    STANDARD_TYPES,
    Message,
    parse_property,
)
from connector.operate.trace_context import TRACEPARENT
from connector.sinks.contract import Event, PreparedSink, SinkContext, write_body
from connector.sinks.sent_headers import SentHeaders


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
        message = Message(
            body=body,
            message_class=message_class,
            correlation_id=event.message.correlation_id,
            delivery_mode=self._delivery_mode,
            priority=event.message.priority,
        )
        self._headers_of(bo.type, bo.verb or "").set_on(message, self._format_property)
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
        return message

    def _read_headers(self, object_name: str, verb: str) -> SentHeaders:
        """Returns the configured headers of messages for an object and verb.

        Raises:
            ValueError: one of these values in the static meta-object is not valid.
        """
        said = SentHeaders.read(self._properties(object_name, verb))
        return said if self._format is None else said._replace(format=self._format)
