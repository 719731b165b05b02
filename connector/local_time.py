"""The local time of the C library, for every form of the variable TZ (POSIX.1-2017, 8.3)."""

from __future__ import annotations

import datetime
import os
import re
import time
from typing import Final

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_SECOND: Final = datetime.timedelta(seconds=1)
_NAME: Final = re.compile(r"[A-Za-z]+(?![A-Za-z+\d-])")
_OF_UTC: Final = ("UTC", "GMT", "UCT", "WET")


class LocalTime(datetime.tzinfo):
    """The local time of this process.

    A name of the time zone database, a rule like ``CET-1CEST,M3.5.0,M10.5.0/3`` and no TZ at all mean what
    they mean to every other program.
    """

    def utcoffset(self, moment: datetime.datetime | None) -> datetime.timedelta | None:
        if moment is None:
            return None
        return datetime.timedelta(seconds=_of(moment).tm_gmtoff)

    def dst(self, moment: datetime.datetime | None) -> datetime.timedelta | None:
        """Returns None, because the C library does not tell."""
        return None

    def tzname(self, moment: datetime.datetime | None) -> str | None:
        return None if moment is None else _of(moment).tm_zone

    def fromutc(self, moment: datetime.datetime) -> datetime.datetime:
        """Returns a moment in local time."""
        seconds = (moment.replace(tzinfo=None) - _EPOCH) // _SECOND
        local = moment + datetime.timedelta(seconds=time.localtime(seconds).tm_gmtoff)
        is_second = _of(local.replace(fold=0)).tm_gmtoff != time.localtime(seconds).tm_gmtoff
        return local.replace(fold=int(is_second))


def _of(moment: datetime.datetime) -> time.struct_time:
    """Returns the local time of a moment without regard to its zone.

    In the hour that the clock repeats, ``fold`` tells the first from the second. A time that the clock skips
    counts as the time that the clock shows instead.
    """
    fields = moment.timetuple()[:6]
    guesses = {time.mktime((*fields, 0, 0, is_dst)) for is_dst in (0, 1, -1)}
    found = [time.localtime(guess) for guess in sorted(guesses)]
    exact = [one for one in found if one[:6] == fields]
    if exact:
        return exact[-1 if moment.fold else 0]
    return found[-1 if moment.fold else 0]


LOCAL: Final = LocalTime()


def unknown_zone() -> str | None:
    """Returns the value of TZ if the C library does not know that zone. Local time is then that of UTC."""
    zone = os.environ.get("TZ", "")
    if zone.startswith("/"):
        return None if os.path.exists(zone) else zone
    name = _NAME.match(zone.removeprefix(":"))  # a rule such as CET-1CEST is none
    is_utc = time.timezone == 0 and not time.daylight
    if name is None or name[0] in _OF_UTC or not is_utc or time.tzname[0] != name[0]:
        return None
    return zone
