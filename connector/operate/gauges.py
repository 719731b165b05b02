"""The present values of an instance, for its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gauges:
    """The present values of an instance.

    Args:
        well, ready, provider_up: as the pages below ``/health`` say.
        unwell: kind and subject of each reason that the application is not well.
        in_doubt: the number of messages in doubt, by the InProgressDestination.
        inputs: the number of waiting messages, and the age of the oldest in seconds, by input.
        delayed: messages of the inputs that wait for their time.
        error_waiting: messages in the ErrorDestination. None = unknown.
        paused: inputs and subscriptions.
        databases: whether each can be reached.
        disk_free, disk_wanted: bytes. None = the messages are on no disk of this machine.
        last_good_poll: seconds since 1970. None = there was none.
    """

    version: str
    application: str
    well: bool = True
    unwell: Sequence[tuple[str, str]] = ()
    ready: bool = True
    provider_up: bool = True
    in_doubt: Mapping[str, int] = field(default_factory=dict)
    inputs: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    delayed: int = 0
    error_waiting: int | None = None
    in_progress: int = 0
    paused: Sequence[str] = ()
    resting: Sequence[str] = ()
    databases: Mapping[str, bool] = field(default_factory=dict)
    disk_free: int | None = None
    disk_wanted: int | None = None
    last_good_poll: float | None = None
