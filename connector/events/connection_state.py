"""What the parts of one connection share."""

from __future__ import annotations

from dataclasses import dataclass

from connector.events.claim.duplicates import Duplicates
from connector.events.claim.event_waits import EventWaits
from connector.events.claim.waiting_messages import WaitingMessages
from connector.events.hooks.event_hook import EventHooks
from connector.events.run.schedule import Schedule
from connector.events.settings import EventSettings
from connector.events.working_state import WorkingState
from connector.messaging.provider import Connection


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """The claims of one connection, and what stands beside them.

    Args:
        working: what the instance remembers over all connections.
        duplicates: the ids of the claims. None if duplicates are not eliminated.
        waits: of inputs whose next event comes again later.
        waiting: messages whose process was not active. None without InProgressDestination.
    """

    connection: Connection
    settings: EventSettings
    working: WorkingState
    schedule: Schedule
    duplicates: Duplicates | None
    waits: EventWaits
    waiting: WaitingMessages | None
    hooks: EventHooks
