"""The daily window of polls: PollStartTime and PollEndTime."""

from __future__ import annotations

import datetime


class PollWindow:
    """The daily time in which polls begin, by local time. The window may cross midnight.

    Args:
        start, end: PollStartTime and PollEndTime. None for both = always.
    """

    def __init__(self, start: datetime.time | None, end: datetime.time | None) -> None:
        self._start = start
        self._end = end

    def opens_in(self, now: datetime.datetime) -> float:
        """Returns the seconds until a poll may begin, or 0 while the window is open.

        Args:
            now: local time, with the zone.
        """
        opens = self.opens_at(now)
        return 0.0 if opens is None else max(0.0, opens.timestamp() - now.timestamp())

    def opens_at(self, now: datetime.datetime) -> datetime.datetime | None:
        """Returns the local time at which the window opens. None while it is open.

        Args:
            now: local time, with the zone.
        """
        if self._start is None or self._end is None or self._start == self._end:
            return None
        moment = now.time()
        if self._start < self._end:
            is_open = self._start <= moment < self._end
        else:
            is_open = moment >= self._start or moment < self._end
        if is_open:
            return None
        from apscheduler.triggers.cron import CronTrigger  # imported here, because it takes 60 ms

        # The trigger knows the days on which the clocks are changed.
        daily = CronTrigger(
            hour=self._start.hour, minute=self._start.minute, second=self._start.second, timezone=now.tzinfo
        )
        opens: datetime.datetime = daily.get_next_fire_time(None, now)
        return opens
