"""How long the events of each destination take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from connector.events.task_settings import WorkItem
from connector.messaging.destination import Destination

_UNKNOWN_SECONDS: Final = 1.0
_WEIGHT: Final = 0.3
"""Share of the last task in the mean of all."""


class EventDurations:
    """Durations of events by destination, learned from earlier events."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    def note(self, items: Sequence[WorkItem], seconds: float) -> None:
        """Notes that a task has processed ``items`` in ``seconds``."""
        each = seconds / len(items)
        for name in {item[1] for item in items}:
            before = self._seconds.get(name, each)
            self._seconds[name] = before + (each - before) * _WEIGHT

    def seconds(self, destination: Destination) -> float:
        """Returns the seconds that one event takes, or a long time if that is not known."""
        return self._seconds.get(str(destination), _UNKNOWN_SECONDS)

    def is_known(self, destination: Destination) -> bool:
        """Whether events of a destination have been processed."""
        return str(destination) in self._seconds
