"""What one instance of an adapter remembers from one connection to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from connector.events.claim.free_disk import FreeDisk
from connector.events.claim.polled_input import PolledInputs
from connector.events.hooks.grouped_log import GroupedLog
from connector.events.run.circuits import Circuits
from connector.events.summary import Summary
from connector.operate.control import ControlWatch
from connector.operate.tracer import Tracer


@dataclass(frozen=True, slots=True)
class WorkingState:
    """The memory of an instance. It ends with the process.

    Args:
        summary: counts outcomes.
        numbers: of polls and of recoveries.
        inputs: with their rates and pauses.
        lines: logs events that were not published, and polls that ended early.
        disk: of the provider.
        control: what operators have told the application.
        tracer: exports the spans of events. None = there is no tracing.
    """

    summary: Summary
    numbers: Iterator[int]
    inputs: PolledInputs
    lines: GroupedLog
    circuits: Circuits
    disk: FreeDisk
    control: ControlWatch
    tracer: Tracer | None = None
