"""The limits of a conversion: everything between the claim and the first delivery of one event."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import Final, Protocol

_LEAST: Final = 0.001


class ConversionTimer(Protocol):
    """Ends this process when a conversion takes too long."""

    def limit(self, seconds: float, whole: float) -> None:
        """Begins to count. After ``seconds`` without :meth:`disarm` the process is ended.

        Args:
            whole: seconds that the event may take in all.
        """

    def disarm(self) -> None: ...


class ConversionLimit:
    """The time that one event may take before its first delivery (``convert_timeout``). A context manager.

    The time counts only within the context, which may be entered several times for an event. So it does not
    count while a body is read or a message is written.

    A process that a data handler has forked, and that returns here, ends.
    """

    def __init__(self, timer: ConversionTimer) -> None:
        self._timer = timer
        self._seconds = self._left = 0.0
        self._began = 0.0
        self._pid = os.getpid()

    def begin(self, seconds: float) -> None:
        """Begins with a new event, which may take ``seconds``."""
        self._seconds = self._left = seconds

    def renew(self) -> None:
        """Gives the event its whole time once more, for a reply."""
        self._left = self._seconds

    @property
    def used(self) -> float:
        """Seconds that the event has taken within the context."""
        return self._seconds - self._left

    def __enter__(self) -> None:
        self._began = time.monotonic()
        self._timer.limit(self._left, self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            os._exit(0)  # a fork that somebody forgot to end: only its parent goes on
        self._timer.disarm()
        self._left = max(_LEAST, self._left - (time.monotonic() - self._began))
