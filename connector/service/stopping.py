"""The request to stop an adapter, and the time limit that follows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

_log = logging.getLogger("connector.adapter")

_AGAIN_SECONDS: Final = 1.0
"""Seconds until work is aborted again. Work that begins at the moment of an abort does not notice it."""
_HANGS: Final = 60.0
"""Seconds beyond the time-out after which a stop counts as one that hangs."""


class StopRequest:
    """The request to stop an adapter. For any thread, and for a signal handler.

    Args:
        timeout: ``stop_timeout``, in seconds.
        abort: called when the time-out has passed since the first request, and again and again until
            :meth:`cancel_timer`.
        on_hang: called if the process lives a minute after the time-out. None = nobody minds.
    """

    def __init__(
        self, timeout: float, abort: Callable[[], None], on_hang: Callable[[], None] | None = None
    ) -> None:
        self.timeout = timeout
        self._abort = abort
        self._on_hang = on_hang
        self._requested = threading.Event()
        self._is_over = threading.Event()
        self._deadline: float | None = None

    @property
    def is_made(self) -> bool:
        """Whether the adapter is told to stop."""
        return self._requested.is_set()

    @property
    def time_left(self) -> float:
        """Seconds of ``stop_timeout`` that are left for events and requests in flight."""
        return self.timeout if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def make(self) -> None:
        """Tells the adapter to stop. Repeatable."""
        self._requested.set()

    def start_timer(self, *, aborts_now: bool = False) -> None:
        """Starts the time limit. Repeatable: the first call counts.

        Args:
            aborts_now: work is aborted without a wait, because only the start of the adapter is at work.
                Requests keep the time that is left.
        """
        if self._deadline is None:
            self.expect_end()
            self._deadline = time.monotonic() + self.timeout
            pause = 0.0 if aborts_now else self.timeout
            threading.Thread(
                target=self._abort_late, args=(pause,), name="connector-stop", daemon=True
            ).start()

    def expect_end(self) -> None:
        """Lets ``on_hang`` be called, whatever ends meanwhile: a thread may outlive the work. Repeatable."""
        on_hang, self._on_hang = self._on_hang, None
        if on_hang is not None:
            timer = threading.Timer(self.time_left + _HANGS, on_hang)
            timer.daemon = True
            timer.start()

    def cancel_timer(self) -> None:
        """Ends the time limit, because all work has ended. Repeatable."""
        self._is_over.set()

    def _abort_late(self, pause: float) -> None:
        while not self._is_over.wait(pause):
            pause = _AGAIN_SECONDS
            try:
                self._abort()
            except Exception as error:
                _log.error("stopping the adapter failed", extra={"reason": str(error)})

    def wait(self, seconds: float | None) -> None:
        """Waits until the adapter is told to stop, ``seconds`` at most. None = without limit."""
        self._requested.wait(seconds)
