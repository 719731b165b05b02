"""The live line of a run with an end: the number of events, the rate, and the outcomes."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, TextIO

from connector.events.summary import Summary
from connector.log import is_json

_log: Final = logging.getLogger("connector.run")

_LIVE_SECONDS: Final = 0.1
_PLAIN_SECONDS: Final = 2.0
_CLEAR: Final = "\r\x1b[K"
_PARTS: Final = (
    ("published", "published"),
    ("failed", "in error"),
    ("unsubscribed", "unsubscribed"),
    ("duplicates", "duplicate"),
    ("expired", "expired"),
    ("in_doubt", "in doubt"),
)


class Progress:
    """Shows the counts of a summary on stderr: one live line on a terminal, a line every 2 s elsewhere.

    Inside the context, all other output to stderr, the log included, appears above the live line.

    With a JSON log, the counts are a line of the log every 2 s.
    """

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._live = sys.stderr.isatty() and not is_json()
        self._started = time.monotonic()
        self._shown_at = float("-inf")
        self._shown = ""
        self._stderr: TextIO = sys.stderr
        self._above: _Above | None = None
        self._counted: dict[str, int] | None = None
        """The counts of the last line."""
        self._logged: dict[str, int] = {}

    def __enter__(self) -> Progress:
        if self._live:
            self._above = _Above(self._stderr)
            self._above.redirect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._above is not None:
            self._above.restore()
            self._above.show("")
            if self._shown:
                self._stderr.write(f"{self._shown}\n")
            self._stderr.flush()

    def update(self, *, last: bool = False) -> None:
        """Shows the present counts. Keeps a pause between two lines, unless this is the ``last`` line."""
        if is_json():
            self._log_counts()
            return
        now = time.monotonic()
        pause = _LIVE_SECONDS if self._live else _PLAIN_SECONDS
        if now - self._shown_at < pause and not last:
            return
        text = self._text(now - self._started)
        counts = self._summary.total.as_dict()
        if counts == self._counted and not self._live:
            return
        self._shown_at, self._counted = now, counts
        self._shown = text
        if self._above is not None:
            self._above.show(text)
        else:
            self._stderr.write(f"{text}\n")
            self._stderr.flush()

    def _log_counts(self) -> None:
        now = time.monotonic()
        counts = self._summary.total.as_dict()
        if now - self._shown_at < _PLAIN_SECONDS or counts == self._logged:
            return
        self._shown_at, self._logged = now, counts
        _log.info("progress", extra={**counts, "seconds": round(now - self._started, 3)})

    def _text(self, seconds: float) -> str:
        total = self._summary.total
        rate = f", {total.claimed / seconds:,.0f} a second" if seconds > 0.2 and total.claimed else ""
        parts = [
            f"{getattr(total, key):,} {name}"
            for key, name in _PARTS
            if getattr(total, key) or key == "published"
        ]
        events = "1 event" if total.claimed == 1 else f"{total.claimed:,} events"
        return f"{events}{rate}: {', '.join(parts)}"


class Waiting:
    """Shows on a terminal what the start of a run waits for, and since when. Clears the line at the end.

    Shows nothing elsewhere, because the log has what matters.

    Args:
        step: returns what the start is doing now. Empty = nothing to show.
    """

    def __init__(self, step: Callable[[], str]) -> None:
        self._step = step
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._above: _Above | None = None

    def __enter__(self) -> Waiting:
        if sys.stderr.isatty() and not is_json():
            self._above = _Above(sys.stderr)
            self._above.redirect()
            self._thread = threading.Thread(target=self._show, args=(self._above,), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None and self._above is not None:
            self._thread.join()
            self._above.restore()
            self._above.show("")

    def _show(self, above: _Above) -> None:
        began, before, shown = time.monotonic(), "", ""
        while not self._ended.wait(_LIVE_SECONDS):
            step, now = self._step(), time.monotonic()
            if step != before:
                began, before = now, step
            seconds = int(now - began)
            text = f"{step}, {seconds} s" if step and seconds else step
            if text != shown:
                shown = text
                above.show(text)


class _Above:
    """A stderr that keeps the last line of the terminal for the live line. For any thread."""

    def __init__(self, stream: TextIO) -> None:
        self._lock = threading.RLock()
        self._stream = stream
        self._line = ""
        self._pending = ""
        self._handlers: list[object] = []
        self._redirect = contextlib.ExitStack()

    def redirect(self) -> None:
        """Sends the output to stderr, and the log, through this object."""
        self._redirect.enter_context(contextlib.redirect_stderr(self))
        for handler in logging.getLogger("connector").handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is self._stream:
                handler.setStream(self)
                self._redirect.callback(handler.setStream, self._stream)

    def restore(self) -> None:
        self._redirect.close()
        if self._pending:
            self._print(self._pending + "\n")
            self._pending = ""

    def show(self, line: str) -> None:
        width = shutil.get_terminal_size().columns
        with self._lock:
            self._line = line if len(line) < width else line[: max(0, width - 1)]
            self._stream.write(_CLEAR + self._line)
            self._stream.flush()

    def write(self, text: str) -> int:
        with self._lock:
            whole, newline, rest = (self._pending + text).rpartition("\n")
            self._pending = rest
            if newline:
                self._print(whole + newline)
        return len(text)

    def _print(self, lines: str) -> None:
        self._stream.write(_CLEAR + lines + self._line)
        self._stream.flush()

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:
        return self._stream.encoding or "utf-8"
