"""The configuration of a subscription with the sink ``destination``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from connector.declare.destinations import SINK
from connector.messaging.destination import Destination
from connector.sinks.destination.sink import DestinationSpec
from connector.sinks.mapped_entry import MappedEntry
from connector.sinks.subscription_model import PreparedEntry


class DestinationEntry(MappedEntry, PreparedEntry):
    """Sends the object as a message to a destination of the provider."""

    destination: Annotated[Destination, SINK] = Field(
        description="A queue or topic. The message is sent in the commit that settles the event."
    )

    def sink(self) -> DestinationSpec:
        return DestinationSpec(self.destination, self.mime_type, self.format)

    def target(self) -> str:
        return str(self.destination)

    @property
    def sends_to(self) -> Destination:
        return self.destination
