"""Messages whose destination, headers and properties come from attributes of the object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from connector.businessobjects.instance import BusinessObject
from connector.businessobjects.metadata import read_delivery_delay, read_priority
from connector.errors import ObjectRefused
from connector.messaging.destination import Destination
from connector.messaging.message import Message, delivery_time_after
from connector.sinks.contract import Event, SinkContext
from connector.sinks.destination.sink import DestinationSink, DestinationSpec
from connector.sinks.destination.templates import DestinationTemplate, fits
from connector.sinks.template import TextTemplate
from connector.text.durations import read_duration

GROUP: Final = "JMSXGroupID"


def read_delay(text: str) -> int:
    """Returns a delivery delay in milliseconds. The text is a duration, or a number of milliseconds.

    Raises:
        ValueError: the text is neither, or no message can wait so long.
    """
    seconds = read_duration(text.strip())
    return read_delivery_delay(text if seconds is None else round(seconds * 1000))


@dataclass(frozen=True, slots=True)
class ComputedSpec:
    """Recipe for a :class:`ComputedSink`.

    Args:
        fixed: what is the same for all objects.
        destination: None = the fixed one.
        destinations: the patterns of the names that the destination may become.
        properties: each a name and the template of its value.
        priority, correlation_id, group, delay: None = as without it.
    """

    fixed: DestinationSpec
    destination: DestinationTemplate | None = None
    destinations: Sequence[str] = ()
    properties: Sequence[tuple[str, TextTemplate]] = ()
    priority: TextTemplate | None = None
    correlation_id: TextTemplate | None = None
    group: TextTemplate | None = None
    delay: TextTemplate | None = None

    def open(self, context: SinkContext) -> ComputedSink:
        """Makes the sink.

        Raises:
            ConfigurationError: no data handler serves the MIME type.
        """
        return ComputedSink(self, context)


class ComputedSink(DestinationSink):
    """A sink that fills templates for each object."""

    def __init__(self, spec: ComputedSpec, context: SinkContext) -> None:
        super().__init__(spec.fixed, context)
        self._spec = spec

    def prepare(self, bo: BusinessObject, event: Event) -> Message:
        """Returns the message with its computed destination, headers and properties."""
        spec = self._spec
        message, objects = super().prepare(bo, event), event.objects(bo)
        for name, template in spec.properties:
            value, kind = template.property_of(objects)
            message.remove_property(name)
            if value is not None:
                message.set_property(name, value, kind)
        if spec.correlation_id is not None:
            message.correlation_id = spec.correlation_id.fill(objects) or None
        if spec.group is not None:
            self._set_group(message, spec.group.fill(objects))
        if spec.priority is not None and (text := spec.priority.fill(objects)) is not None:
            message.priority = read_priority(text)
        if spec.delay is not None and (text := spec.delay.fill(objects)) is not None:
            message.delivery_time = delivery_time_after(read_delay(text))
        if spec.destination is not None:
            message.destination = self._destination(spec.destination.fill(objects))
        return message

    @staticmethod
    def _set_group(message: Message, group: str | None) -> None:
        """Sets the group. The number of the message in the group of the event means nothing in this one."""
        message.remove_property(GROUP)
        message.remove_property("JMSXGroupSeq")
        if group:
            message.set_property(GROUP, group)

    def _destination(self, destination: Destination) -> str:
        text = str(destination)
        if not any(fits(pattern, text) for pattern in self._spec.destinations):
            allowed = ", ".join(self._spec.destinations)
            raise ObjectRefused(f"the destination would be {text}, which is none of destinations ({allowed})")
        return text
