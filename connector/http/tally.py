"""What happens often is said now and then, with its number."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

_log = logging.getLogger("connector.http")

SECONDS: Final = 10.0
"""Between two lines about the same thing."""


class Tally:
    """Counts one kind of refusal. For one thread, that of the server.

    Args:
        text: of the line in the log, which gets the field ``number``: how many since the last line.
        fields: further fields of the line.
        clock: seconds that pass.
    """

    def __init__(
        self, text: str, fields: Mapping[str, object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._text = text
        self._fields = fields
        self._clock = clock
        self._count = 0
        self._said: float | None = None

    def add(self) -> None:
        """One more; the first one is said at once."""
        self._count += 1
        now = self._clock()
        if self._said is None or now - self._said >= SECONDS:
            self._said = now
            _log.info(self._text, extra={"number": self._count, **self._fields})
            self._count = 0
