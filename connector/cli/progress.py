"""The live line of a run that ends: how many events, how fast, what became of them."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from connector.events.summary import Summary


class Progress:
    """Shows the counts of a summary on stderr: one live line on a terminal, a line every 2 s elsewhere.

    Args:
        summary: of the adapter.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._live = sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown = self._started
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live and self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()

    def update(self) -> None:
        """Something was settled."""
        now = time.monotonic()
        if now - self._shown < (0.1 if self._live else 2.0) and self._width:
            return
        self._shown = now
        total = self._summary.total
        seconds = now - self._started
        rate = total.claimed / seconds if seconds > 0.2 else 0.0
        text = (
            f"{total.claimed} events: {total.published} published, {total.unsubscribed} unsubscribed, "
            f"{total.failed} failed, {total.duplicates} duplicates"
        )
        if rate:
            text += f" ({rate:,.0f}/s)"
        if self._live:
            sys.stderr.write("\r" + text.ljust(self._width))
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()
        self._width = max(self._width, len(text))
