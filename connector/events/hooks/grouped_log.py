"""Log lines in groups: of lines that differ in values only, one a minute is written."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from connector.text.alike import mask
from connector.tracebacks import UserCode, format_traceback

_SECONDS: Final = 60.0
_MOST_GROUPS: Final = 1000
_MOST_TOLD: Final = 16 << 10
"""Bytes of a traceback that is kept in memory, too."""


@dataclass(slots=True)
class _Row:
    since: float
    level: int
    text: str
    extra: Mapping[str, object]
    number: int = 0
    """Of lines that are not written yet."""


class LogGroups:
    """The groups of lines of a process. For any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.rows: dict[Hashable, _Row] = {}


class GroupedLog:
    """A log that writes one line of each group and minute.

    A group has a text, a destination, a subscription, a place, and a reason without what differs. The field
    ``number`` says for how many lines a line stands, if not for one. For any thread.

    Args:
        clock: returns monotonic seconds.
        tell: gets subscription, place and traceback of each line with an exception of user code.
        groups: of this log and others. None = of this log only.
    """

    def __init__(
        self,
        log: logging.Logger,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str, str, str], None] | None = None,
        groups: LogGroups | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._tell = tell
        self._groups = LogGroups() if groups is None else groups

    def warning(self, text: str, *, extra: Mapping[str, object]) -> None:
        """Logs a line at level warning."""
        self._add(logging.WARNING, text, extra, None)

    def error(self, text: str, *, extra: Mapping[str, object], exc_info: BaseException | None = None) -> None:
        """Logs a line at level error. A traceback stands in a line that is the first of its minute."""
        self._add(logging.ERROR, text, extra, exc_info)

    def flush(self, *, all_groups: bool = False) -> None:
        """Writes the numbers of lines that no line stands for yet.

        Args:
            all_groups: also of groups whose minute is not over.
        """
        now, groups = self._clock(), self._groups
        with groups.lock:
            due = [one for one, row in groups.rows.items() if all_groups or now - row.since >= _SECONDS]
            ended = [groups.rows.pop(one) for one in due]
        for row in ended:
            self._write(row)

    def _add(self, level: int, text: str, extra: Mapping[str, object], error: BaseException | None) -> None:
        named: list[Any] = [extra.get(name) for name in ("destination", "subscription", "place")]
        key = (text, *named, mask(str(extra.get("reason"))))
        now, groups, oldest = self._clock(), self._groups, None
        with groups.lock:
            row = groups.rows.get(key)
            if row is not None and now - row.since < _SECONDS:
                row.number += 1
                return
            if row is None and len(groups.rows) >= _MOST_GROUPS:
                oldest = groups.rows.pop(next(iter(groups.rows)))
            number = 1 + (row.number if row is not None else 0)
            groups.rows.pop(key, None)
            groups.rows[key] = _Row(now, level, text, extra)
        if oldest is not None:
            self._write(oldest)
        counted = {"number": number} if number > 1 else {}
        self._log.log(level, text, extra={**extra, **counted}, exc_info=error)
        user_code = extra.get("user_code")
        if self._tell is not None and error is not None and isinstance(user_code, UserCode):
            trace = format_traceback(error, user_code, _MOST_TOLD)
            self._tell(str(extra.get("subscription") or ""), str(extra.get("place") or ""), trace)

    def _write(self, row: _Row) -> None:
        if row.number:
            self._log.log(row.level, row.text, extra={**row.extra, "number": row.number})
