"""Dates and times as columns hold them, from the texts of the type Date."""

from __future__ import annotations

import datetime
import re
from typing import Final

_ZONED_DATE: Final = re.compile(r"([0-9]{4}-?[0-9]{2}-?[0-9]{2})(Z|[+-][0-9]{2}:[0-9]{2})")
_END_OF_DAY: Final = re.compile(r"T24(?=[:0Z+-]|$)")
_LEAP_SECOND: Final = re.compile(r"T[0-9]{2}:?[0-9]{2}:?60")


class Unkeepable(ValueError):
    """No column for times can hold the value. The text is what is expected."""


def read_time(text: str) -> datetime.datetime:
    """Reads a Date as :mod:`connector.businessobjects.types` accepts it, which Python does not quite.

    A date is midnight, in its zone if it has one. 24:00 is midnight of the next day.

    Raises:
        Unkeepable: no column can hold the time.
        ValueError: the text is no Date.
    """
    zoned = _ZONED_DATE.fullmatch(text)
    if zoned is not None:
        return datetime.datetime.fromisoformat(f"{zoned[1]}T00:00{zoned[2]}")
    if _LEAP_SECOND.search(text):
        raise Unkeepable("a date and time without a leap second, or a text column to keep it")
    time = datetime.datetime.fromisoformat(_END_OF_DAY.sub("T00", text))
    if _END_OF_DAY.search(text) is None:
        return time
    try:
        return time + datetime.timedelta(days=1)
    except OverflowError:
        raise Unkeepable("a time before the year 10000") from None


def read_date(text: str) -> datetime.date:
    """Reads a Date as what the text says: a date, or a date and time.

    Raises:
        Unkeepable: Python has no such time.
    """
    time = read_time(text)
    return time if "T" in text else time.date()
