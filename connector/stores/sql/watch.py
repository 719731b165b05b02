"""The watch of a client: looks into the database from time to time, and sooner after an announcement."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from connector.errors import ProviderError
from connector.stores.engine.store import Watch
from connector.stores.sql.database import DatabaseClient
from connector.stores.sql.reader import SqlReader

_LONGEST: Final = 1.0
"""Seconds between two looks at most."""


class Notifier:
    """Notifies watches of messages, so that they look."""

    def add(self, watch: SqlWatch) -> None:
        """Calls :meth:`SqlWatch.notify` of a watch from now on. Repeatable."""

    def remove(self, watch: SqlWatch) -> None:
        """Ends :meth:`add`. Repeatable."""

    def interval(self, *, selects: bool) -> float:
        """Returns the seconds until the next look. ``selects``: a reader of the watch has a selector."""
        raise NotImplementedError

    def may_have_come(self) -> bool:
        """Whether a look may find a message."""
        return True

    def notify(self, channels: Sequence[str]) -> None:
        """Announces messages in channels that were empty. Never raises."""


class FileNotifier(Notifier):
    """Watches the log beside a SQLite file. Every commit changes the log, and to look at the log is cheap."""

    _INTERVAL: Final = 0.01
    _COARSE_NS: Final = 20_000_000
    """Two changes within so many nanoseconds may have the same time."""

    def __init__(self, file: str) -> None:
        self._log = f"{file}-wal"
        self._seen: tuple[int, int] | None = None

    def interval(self, *, selects: bool) -> float:
        return self._INTERVAL

    def may_have_come(self) -> bool:
        try:
            status = os.stat(self._log)
        except OSError:
            return True
        before, self._seen = self._seen, (status.st_mtime_ns, status.st_size)
        return before != self._seen or time.time_ns() - status.st_mtime_ns < self._COARSE_NS


class SqlWatch(Watch):
    can_tell = True

    def __init__(self, db: DatabaseClient, readers: dict[SqlReader, None], notifier: Notifier) -> None:
        self._db = db
        self._readers = readers
        self._notifier = notifier
        self._changed = threading.Condition()
        self._is_woken = False
        self._is_told = False
        self._ended = False
        self._mark: Any = db.dialect.beginning

    def begin(self) -> bool:
        self._notifier.add(self)
        self._ask(self._begin)
        return not self._ended

    def _begin(self) -> bool:
        self._mark = self._db.first(self._db.statements.mark)
        for reader in tuple(self._readers):
            reader.begin()
        return True

    def wait(self, seconds: float) -> bool:
        self.wait_for_news(self._has_come, seconds)
        return self._ask(self._has_come)

    def _has_come(self) -> bool:
        return any(reader.has_come(self._mark) for reader in tuple(self._readers))

    def _ask(self, question: Callable[[], bool]) -> bool:
        """Returns the answer. True after the end or an error, which the next poll reports."""
        try:
            return self._ended or question()
        except ProviderError:
            return True

    def wait_for_news(self, has_news: Callable[[], bool], seconds: float) -> None:
        self._notifier.add(self)
        deadline = time.monotonic() + seconds
        look = 0.0
        while (now := time.monotonic()) < deadline or not look:
            is_told = self._take_told()  # in any case, or the next sleep would end at once
            if is_told or self._notifier.may_have_come() or now >= look:
                look = now + _LONGEST
                if self._ask(has_news):
                    break
            selects = any(reader.selects for reader in tuple(self._readers))
            until = min(deadline, look, time.monotonic() + self._notifier.interval(selects=selects))
            if self._sleep(until - time.monotonic()):
                break
        with self._changed:
            self._is_woken = False

    def _take_told(self) -> bool:
        with self._changed:
            was_told, self._is_told = self._is_told, False
        return was_told

    def _sleep(self, seconds: float) -> bool:
        """Sleeps until an announcement at most. Returns whether the wait is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_woken or self._is_told or self._ended, max(0.0, seconds))
            return self._is_woken or self._ended

    def notify(self, channel: str | None) -> None:
        """Ends a sleep: a message waits in a channel that was empty. None = in an unknown channel."""
        if channel is None or any(reader.channel == channel for reader in tuple(self._readers)):
            with self._changed:
                self._is_told = True
                self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def close(self) -> None:
        self._notifier.remove(self)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
