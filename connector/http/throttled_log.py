"""Counts frequent refusals, and logs their number now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

_log = logging.getLogger("connector.http")

SECONDS: Final = 10.0
"""Seconds between two lines of a log, at least."""


class ThrottledLog:
    """Counts one kind of refusal. For one thread, that of the server.

    Args:
        text: the text of the log line. Its field ``number`` says how many refusals came since the last line.
        clock: returns seconds that pass.
    """

    def __init__(
        self, text: str, fields: Mapping[str, object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._text = text
        self._fields = fields
        self._clock = clock
        self._count = 0
        self._said: float | None = None

    def add(self, **fields: object) -> None:
        """Counts a refusal. Logs the first refusal at once.

        Args:
            fields: of this refusal, for the line.
        """
        self._count += 1
        now = self._clock()
        if self._said is None or now - self._said >= SECONDS:
            self._said = now
            _log.info(self._text, extra={"number": self._count, **self._fields, **fields})
            self._count = 0
