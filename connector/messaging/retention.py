"""Retention: how long copies of an adapter are kept."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field

from connector.errors import DestinationError
from connector.messaging.destination import Destination
from connector.messaging.message import Message


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a queue keeps copies of an adapter.

    Args:
        seconds: older copies are removed.

    Raises:
        DestinationError: the destination is a topic or a virtual destination.
    """

    destination: Destination
    seconds: float

    def __post_init__(self) -> None:
        if not self.destination.is_queue or self.destination.view:
            raise DestinationError(f"{self.destination} keeps no copies: only whole queues do")

    def is_over(self, message: Message, arrived: float, now: float) -> bool:
        """Whether a message is a copy that was kept long enough. False for any other message.

        Args:
            message: headers and properties.
            arrived: time at which the provider got the message. Used if ``connector_time`` cannot be read.
            now: time of the provider's clock. Both times are seconds since 1970.
        """
        if "connector_origin_destination" not in message.properties:
            return False
        settled = message.properties.get("connector_time")
        if settled is None:
            return False
        try:
            since = datetime.datetime.fromisoformat(str(settled)).timestamp()
        except (ValueError, OverflowError):
            since = arrived
        return since + self.seconds < now


@dataclass(frozen=True, slots=True)
class Pruned:
    """The numbers of messages that were removed because they were kept long enough.

    Args:
        settled: messages that the provider itself had kept, such as those in ``processed/``.
        copies: queue -> copies of an adapter.
        is_done: False if the time was too short. The next call goes on.
    """

    settled: int = 0
    copies: Mapping[Destination, int] = field(default_factory=dict)
    is_done: bool = True
