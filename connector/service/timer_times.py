"""The due times of a timer, in milliseconds since 1970."""

from __future__ import annotations

import datetime
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from connector.config.timer_model import TimerEntry
from connector.cron import Cron
from connector.local_time import LOCAL

MOST: Final = 1000
"""Missed times that ``misfire: all`` sends, at most."""
_SAMPLE: Final = 100
"""Due times of a cron from which the time of more is estimated."""
_SHORTEST_KEEP: Final = 3600.0
_LONGEST_KEEP: Final = 400 * 86400.0


class Missed(NamedTuple):
    """What to do about times that have passed while nobody looked.

    Args:
        until: later times are due, and have a message.
        left_out: the first and the last time without a message. None = there is none.
    """

    until: int
    left_out: tuple[int, int] | None


@dataclass(slots=True)
class DueTimes:
    """The times at which a timer is due.

    With ``every`` they are a grid from 1970-01-01 00:00 UTC, so that all instances agree.

    Args:
        zone: of the cron.
    """

    every: float | None
    cron: Cron | None = None
    zone: datetime.tzinfo = LOCAL
    _keep: float = field(default=0.0, init=False)

    @classmethod
    def of(cls, entry: TimerEntry, zone: datetime.tzinfo = LOCAL) -> DueTimes:
        return cls(entry.every, entry.cron, zone)

    def next_after(self, moment: int) -> int:
        """Returns the first due time after a moment."""
        if self.cron is None:
            assert self.every is not None
            step = round(self.every * 1000)
            return (moment // step + 1) * step
        seconds, rest = divmod(moment, 1000)
        local = datetime.datetime.fromtimestamp(seconds, self.zone).replace(microsecond=rest * 1000)
        return round(self.cron.next_after(local).timestamp() * 1000)

    def coming(self, moment: int, number: int) -> list[int]:
        """Returns so many due times after a moment."""
        return list(itertools.islice(self._from(moment), number))

    def missed(self, misfire: str, since: int, now: int) -> Missed:
        """Returns what to do about the times after ``since`` up to ``now``.

        Args:
            misfire: as in adapter.yaml.
        """
        first = self.next_after(since)
        if first > now:
            return Missed(since, None)
        if misfire == "none":
            latest = self._latest(since, now)
            return Missed(latest, (first, latest))
        wanted = self._latest(since, now) if misfire == "once" else self._first_of_last(since, now)
        if wanted == first:
            return Missed(since, None)
        return Missed(wanted - 1, (first, self._latest(since, wanted - 1)))

    @property
    def keep(self) -> float:
        """Seconds in which a timer is due some 1,000 times. A key of that age cannot be sent again."""
        if not self._keep:
            if self.cron is None:
                assert self.every is not None
                span = MOST * self.every
            else:
                now = round(datetime.datetime.now(self.zone).timestamp() * 1000)
                span = 2 * (self.coming(now, _SAMPLE)[-1] - now) / 1000 * MOST / _SAMPLE
            self._keep = min(max(span, _SHORTEST_KEEP), _LONGEST_KEEP)
        return self._keep

    def _from(self, moment: int) -> Iterator[int]:
        """Yields the due times after a moment, without end."""
        while True:
            moment = self.next_after(moment)
            yield moment

    def _latest(self, since: int, now: int) -> int:
        """Returns the last due time up to ``now``. One is after ``since``."""
        last = now
        while last - since > 1:
            middle = (since + last) // 2
            if self.next_after(middle) <= now:
                since = middle
            else:
                last = middle
        return self.next_after(since)

    def _first_of_last(self, since: int, now: int) -> int:
        """Returns the first of the last :data:`MOST` due times up to ``now``. One is after ``since``."""
        span = round(self.keep * 1000)
        while True:
            begin = max(since, now - span)
            found = deque(itertools.takewhile(lambda one: one <= now, self._from(begin)), maxlen=MOST)
            if begin == since or len(found) == MOST:
                return found[0]
            span *= 4
