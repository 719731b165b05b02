"""The word to stop, and the time that what is in flight has from then on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class StopRequest:
    """Whether an adapter is told to stop. For any thread, and for a signal handler.

    Args:
        timeout: ``stop_timeout``, in seconds.
        abort: called when that has passed since the first request.
    """

    def __init__(self, timeout: float, abort: Callable[[], None]) -> None:
        self._timeout = timeout
        self._abort = abort
        self._requested = threading.Event()
        self._timer: threading.Timer | None = None
        self._deadline: float | None = None

    @property
    def is_made(self) -> bool:
        """Whether the adapter is told to stop."""
        return self._requested.is_set()

    @property
    def time_left(self) -> float:
        """Seconds that what is in flight may take to end: ``stop_timeout``, less what has passed of it."""
        return self._timeout if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def make(self) -> None:
        """Tells it to stop. Repeatable."""
        self._requested.set()

    def start_timer(self) -> None:
        """The time runs from now on. Repeatable: the first call counts."""
        if self._timer is None:
            self._deadline = time.monotonic() + self._timeout
            self._timer = threading.Timer(self._timeout, self._abort)
            self._timer.daemon = True
            self._timer.start()

    def cancel_timer(self) -> None:
        """All has ended. Repeatable."""
        if self._timer is not None:
            self._timer.cancel()

    def wait(self, seconds: float | None) -> None:
        """Waits until it is told to stop; ``seconds`` at most, or for ever."""
        self._requested.wait(seconds)
