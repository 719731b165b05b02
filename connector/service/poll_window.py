"""The times at which polls begin: a daily window (PollStartTime and PollEndTime), or a cron."""

from __future__ import annotations

import datetime
from typing import Final, Protocol

from connector.cron import Cron

_SET_BACK: Final = 60.0
"""A time that goes back by more seconds was set."""
_DAY: Final = datetime.timedelta(days=1)
_STEPS: Final = tuple(datetime.timedelta(seconds=4**power) for power in range(6, -1, -1))


class Window(Protocol):
    """When polls begin."""

    def opens_at(self, now: datetime.datetime) -> datetime.datetime | None:
        """Returns the local time at which the window opens. None while it is open.

        Args:
            now: local time, with the zone.
        """


class CronWindow(Window):
    """A window that opens at the times of a cron, and closes after a poll.

    Args:
        now: local time, with the zone. Earlier times of the cron do not count.
    """

    def __init__(self, cron: Cron, now: datetime.datetime) -> None:
        self.cron = cron
        self._due = cron.next_after(now)
        self._seen = now.timestamp()

    def opens_at(self, now: datetime.datetime) -> datetime.datetime | None:
        seconds = now.timestamp()
        if self._seen - seconds > _SET_BACK:
            self._due = self.cron.next_after(now)
        self._seen = seconds
        return self._due if seconds < self._due.timestamp() else None

    def close(self, now: datetime.datetime) -> None:
        """Closes the window until the next time of the cron."""
        if now.timestamp() >= self._due.timestamp():
            self._due = self.cron.next_after(now)


class PollWindow(Window):
    """The daily time in which polls begin, by local time. The window may cross midnight.

    Args:
        start, end: PollStartTime and PollEndTime. None for both = always.
    """

    def __init__(self, start: datetime.time | None, end: datetime.time | None) -> None:
        self._start = start
        self._end = end

    def opens_at(self, now: datetime.datetime) -> datetime.datetime | None:
        if self._start is None or self._end is None or self._start == self._end:
            return None
        return None if self._is_open(now.time()) else self._next_opening(now)

    def _is_open(self, shown: datetime.time) -> bool:
        assert self._start is not None and self._end is not None
        if self._start < self._end:
            return self._start <= shown < self._end
        return shown >= self._start or shown < self._end

    def _next_opening(self, now: datetime.datetime) -> datetime.datetime:
        """Returns the first later time in the window. A change of the clocks may lead into the window."""
        assert self._start is not None
        start, moment = datetime.datetime.combine(now, self._start), now.astimezone(datetime.UTC)
        while True:
            shown = _shown(moment, now)
            even = (step for step in _STEPS if _shown(moment + step, now) - shown == step)
            step = next(even, _STEPS[-1])  # in which the clocks run evenly
            wait = (start - shown) % _DAY
            if wait < step:
                return (moment + wait).astimezone(now.tzinfo)
            moment += step
            if step == _STEPS[-1] and self._is_open(_shown(moment, now).time()):
                return moment.astimezone(now.tzinfo)


def _shown(moment: datetime.datetime, like: datetime.datetime) -> datetime.datetime:
    """Returns what the clocks show at a moment, in the zone of another one."""
    return moment.astimezone(like.tzinfo).replace(tzinfo=None)
