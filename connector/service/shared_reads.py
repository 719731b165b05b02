"""Reads of queues that many readers ask for. All readers together cost no more than one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

from connector.errors import ProviderError

_PAUSE: Final = 2.0
"""Seconds between two reads of one thing, at least."""
_SHARE: Final = 0.01
"""Of the time that reads of one thing may take."""
_MOST: Final = 50
"""Things that are remembered."""
_PATIENCE: Final = 10.0
"""Seconds until a read that does not end counts as failed for those who wait for it."""


class SharedReads:
    """Keeps the results of reads, and reads anew in the background. For any thread.

    The first reader waits for a read. Later readers get the result of the last read at once. If that result
    is old, the next read begins meanwhile.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._seen: dict[Hashable, _Seen] = {}

    def get(self, what: Hashable, read: Callable[[], Any]) -> Any:
        """Returns the result of a read.

        Args:
            what: names the thing that is read.
            read: reads, and returns the result. Called in a thread of its own.

        Raises:
            ProviderError: the read does not end.
            Exception: the read has raised it.
        """
        with self._changed:
            seen = self._seen.pop(what, None) or _Seen()
            self._seen[what] = seen
            if len(self._seen) > _MOST:
                del self._seen[next(iter(self._seen))]
            if not seen.is_reading and self._clock() >= seen.until:
                seen.is_reading = True
                threading.Thread(
                    target=self._read, args=(seen, read), name="connector-read", daemon=True
                ).start()
            if not self._changed.wait_for(lambda: seen.is_known, _PATIENCE):
                raise ProviderError(f"the provider has not answered for {_PATIENCE:g} s")
            if seen.error is not None:
                raise seen.error
            return seen.found

    def forget(self) -> None:
        """Lets each reader wait for a new read, because an operator has changed something."""
        with self._changed:
            self._seen.clear()

    def _read(self, seen: _Seen, read: Callable[[], Any]) -> None:
        began, found, error = self._clock(), None, None
        try:
            found = read()
        except Exception as failure:
            error = failure
        ended = self._clock()
        with self._changed:
            seen.found, seen.error, seen.is_known, seen.is_reading = found, error, True, False
            seen.until = ended + max(_PAUSE, (ended - began) / _SHARE)
            self._changed.notify_all()


class _Seen:
    def __init__(self) -> None:
        self.found: Any = None
        self.error: Exception | None = None
        self.is_known = self.is_reading = False
        self.until = float("-inf")
