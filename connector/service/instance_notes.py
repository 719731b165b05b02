"""What an instance tells other processes about itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from connector.errors import ProviderError
from connector.messaging.copy_destinations import CopyDestinations
from connector.messaging.provider_kind import AdapterProvider
from connector.operate.activity import WINDOW, Activity

_INTERVAL: Final = 1.0
"""Seconds between two notes, at least."""
_SAMPLE_INTERVAL: Final = 60.0
_SAMPLE_SHARE: Final = 0.001
"""Share of the time that counting the error destination may take."""


def count_errors(provider: AdapterProvider, copies: CopyDestinations) -> int | None:
    """Returns the number of messages in the error destinations. None = unknown.

    A topic keeps nothing, and a broker does not tell.

    Raises:
        ProviderError: the provider cannot be used.
    """
    queues = [one for one in copies.errors if one.is_queue]
    if not queues or provider.capabilities.transactions:
        return None
    return sum(provider.waiting(one).number for one in queues)


class InstanceNotes:
    """The notes of an instance. For one thread.

    Args:
        count_errors: returns the number of messages in the ErrorDestination. None = unknown.
        obstacle: returns why the instance cannot work now. Empty = it can.
    """

    def __init__(
        self,
        publish: Callable[[Mapping[str, Any]], None],
        activity: Activity,
        resting: Callable[[], list[dict[str, Any]]],
        failing: Callable[[], list[dict[str, Any]]],
        count_errors: Callable[[], int | None],
        loads: Callable[[], list[dict[str, Any]]],
        obstacle: Callable[[], str],
    ) -> None:
        self._publish = publish
        self._activity = activity
        self._resting = resting
        self._failing = failing
        self._count_errors = count_errors
        self._loads = loads
        self._obstacle = obstacle
        self.last_good_poll: float | None = None
        """Seconds since 1970."""
        self._samples: list[tuple[float, int]] = []
        self._sample_at = self._note_at = float("-inf")
        self._noted: dict[str, Any] = {}

    def look(self, *, is_good: bool, at_once: bool = False) -> None:
        """Publishes what has changed, at most once a second.

        Args:
            is_good: whether a good poll has just ended: all its events are settled, or no event waits.
            at_once: whether this note does not wait, such as the last one.
        """
        now = time.monotonic()
        if is_good:
            self.last_good_poll = round(time.time(), 3)
        if now < self._note_at and not at_once:
            return
        self._note_at = now + _INTERVAL
        if now >= self._sample_at and not at_once:  # the provider may have failed
            self._sample()
        facts = {
            "last_good_poll": self.last_good_poll,
            "resting": self._resting(),
            "failing": self._failing(),
            "loads": self._loads(),
            "obstacle": self._obstacle(),
            **self._activity.note(),
            "error_waiting": self._samples,
        }
        if facts != self._noted:
            self._noted = {**facts, "error_waiting": list(self._samples)}
            self._publish(facts)

    def _sample(self) -> None:
        began = time.monotonic()
        try:
            number = self._count_errors()
        except (ProviderError, OSError):
            number = None
        if number is not None:
            self._samples.append((round(time.time(), 3), number))
            del self._samples[: -WINDOW - 1]
        ended = time.monotonic()
        self._sample_at = ended + max(_SAMPLE_INTERVAL, (ended - began) / _SAMPLE_SHARE)
