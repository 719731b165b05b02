"""The settings of the inbound side of an adapter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from connector.agent_trace import Trace
from connector.declare.connector_section import Connector
from connector.declare.history_section import HistorySection
from connector.events.claim.order_groups import Orders
from connector.events.claim.polled_input import InputSettings
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.destination import Destination
from connector.messaging.retention import Retention
from connector.status import OutcomeKind


@dataclass(frozen=True, slots=True)
class EventSettings:
    """The inbound side of an adapter.

    Args:
        inputs: in the order in which they are polled.
        max_jobs: batches that run side by side. None = as many as the pipeline has cores.
    """

    connector: Connector
    instance: str
    inputs: tuple[InputSettings, ...]
    history: HistorySection
    max_jobs: int | None = None

    @property
    def copies(self) -> CopyDestinations:
        """The destinations of messages that are settled or in progress."""
        return self.connector.copies

    @property
    def orders(self) -> Orders:
        """The order of the events of each input."""
        default = self.connector.order
        return Orders(
            default, {one.input.destination: one.order for one in self.inputs if one.order != default}
        )

    @property
    def duplicate_window(self) -> int:
        """Number of keys to remember. 0 = duplicates are not eliminated."""
        by_key = any(one.duplicate_key for one in self.inputs)
        return self.connector.duplicate_window if self.connector.duplicate_event_elimination or by_key else 0

    @property
    def trace(self) -> Trace:
        """The trace of AgentTraceLevel."""
        return Trace(self.connector.agent_trace_level)

    @property
    def retentions(self) -> tuple[Retention, ...]:
        """How long copies are kept. In a queue with two roles the longer time counts."""
        connector, copies = self.connector, self.copies
        kept: dict[Destination, float] = {}
        for kind, seconds in (
            (OutcomeKind.PUBLISHED, connector.keep_archive),
            (OutcomeKind.FAILED, connector.keep_error),
            (OutcomeKind.UNSUBSCRIBED, connector.keep_unsubscribed),
        ):
            longest = math.inf if seconds is None else seconds
            for destination in copies.every(kind):
                if destination.is_queue:  # a topic keeps no copies
                    kept[destination] = max(kept.get(destination, 0.0), longest)
        return tuple(Retention(one, seconds) for one, seconds in kept.items() if seconds != math.inf)

    @property
    def client_id(self) -> str:
        """The client id of the subscriptions. Empty if none needs one, so that no client id is held."""
        return max((one.subscription.client_id for one in self.inputs if one.subscription), default="")
