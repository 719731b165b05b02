"""The daily window of polls: PollStartTime and PollEndTime."""

from __future__ import annotations

import datetime
from typing import Final

_DAY: Final = datetime.timedelta(days=1)
_STEPS: Final = tuple(datetime.timedelta(seconds=4**power) for power in range(6, -1, -1))


class PollWindow:
    """The daily time in which polls begin, by local time. The window may cross midnight.

    Args:
        start, end: PollStartTime and PollEndTime. None for both = always.
    """

    def __init__(self, start: datetime.time | None, end: datetime.time | None) -> None:
        self._start = start
        self._end = end

    def opens_at(self, now: datetime.datetime) -> datetime.datetime | None:
        """Returns the local time at which the window opens. None while it is open.

        Args:
            now: local time, with the zone.
        """
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
