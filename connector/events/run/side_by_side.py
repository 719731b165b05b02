"""Events side by side: the inputs with ``parallel``, and how many of their events run now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from connector.messaging.input import Input

_BATCHES: Final = 8
"""Batches among which the slots are shared.

A batch ends with its slowest event. So an event that takes very long keeps the slots of one batch, and the
other batches go on.
"""
_SLICE_SECONDS: Final = 1.0
"""Seconds of work of a slot in a batch. Then newer events get their turn."""
_MOST_EVENTS: Final = 200
"""Events of a slot in a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class SideBySide:
    """Inputs that share one number of slots.

    Args:
        limit: slots, each for one event at a time.
    """

    limit: int

    def share(self, free: int, waiting: int, seconds: float) -> tuple[int, int]:
        """Returns the slots of the next batch, and the events for each of them.

        Args:
            free: slots without a batch, at least 1.
            waiting: events.
            seconds: duration of an event.
        """
        slots = min(free, -(-self.limit // _BATCHES))
        in_time = min(_MOST_EVENTS, int(_SLICE_SECONDS / max(seconds, 1e-6)))
        return slots, max(1, min(in_time, -(-waiting // self.limit)))


class Parallel:
    """Says which events run side by side.

    Args:
        of_connector: ``parallel`` of the connector. 1 = a task runs its events one after the other.
        own: of inputs that have their own.
    """

    def __init__(self, of_connector: int = 1, own: Mapping[Input, int] | None = None) -> None:
        self._own = {one: _side_by_side(limit) for one, limit in (own or {}).items()}
        self._shared = _side_by_side(of_connector)
        self.is_used = self._shared is not None or any(self._own.values())
        """Whether any events run side by side."""

    def of(self, named: Input | None) -> SideBySide | None:
        """Returns what the events of an input run beside. None = nothing."""
        return self._own.get(named, self._shared) if self.is_used and named is not None else None


def _side_by_side(limit: int) -> SideBySide | None:
    return SideBySide(limit) if limit > 1 else None


NOT_PARALLEL: Final = Parallel()
