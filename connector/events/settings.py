"""The settings of the inbound side of an adapter."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from connector.agent_trace import OFF, Trace
from connector.events.polled_input import InputSettings
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.retention import Retention


class InDoubtPolicy(Enum):
    """``InDoubtEvents``: the policy for messages left in the in-progress destination."""

    REPROCESS = "Reprocess"
    FAIL_ON_STARTUP = "FailOnStartup"
    IGNORE = "Ignore"
    LOG_ERROR = "LogError"


@dataclass(frozen=True, slots=True)
class EventSettings:
    """The inbound side of an adapter.

    Args:
        application: ApplicationName.
        instance: name of this instance.
        inputs: in the order in which they are polled.
        copies: destinations of messages that are settled or in progress.
        policy: InDoubtEvents.
        duplicate_window: number of ids to remember. 0 = duplicates are not eliminated.
        order: ``destination``, ``group`` or ``none``.
        max_attempts: begun deliveries after which an event has failed.
        max_jobs: batches that run side by side. None = as many as the pipeline has cores.
        stop_timeout: seconds.
        retentions: how long copies are kept. Copies without an entry are kept for ever.
        wake: whether a new message starts a poll.
        trace: of AgentTraceLevel.
        keep_history: seconds. 0 = no history is written.
    """

    application: str
    instance: str
    inputs: tuple[InputSettings, ...]
    copies: CopyDestinations
    policy: InDoubtPolicy
    duplicate_window: int
    order: str
    max_attempts: int
    stop_timeout: float
    max_jobs: int | None = None
    retentions: tuple[Retention, ...] = ()
    wake: bool = True
    trace: Trace = OFF
    keep_history: float = 0.0

    @property
    def client_id(self) -> str:
        """The client id of the subscriptions. Empty if none needs one, so that no client id is held."""
        return max((one.subscription.client_id for one in self.inputs if one.subscription), default="")
