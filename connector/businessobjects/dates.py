"""Dates and times as columns hold them, from the texts of the type Date."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NamedTuple

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


def has_zone(text: str) -> bool:
    """Tells whether a Date says its zone."""
    return _moment(text).tzinfo is not None


def reader_for(bound: str) -> Callable[[str], datetime.date]:
    """Returns the function that makes Dates comparable with a bound. The function reads the bound, too.

    A bound without a time is a whole day. A bound without a zone is compared with what a value says in its
    own zone. Beside a bound with a zone, instants are compared. A leap second is the second before.

    The function raises :class:`ValueError`, when a value lacks the zone that the bound has.
    """
    zone = _moment(bound).tzinfo
    is_day = "T" not in bound

    def read(text: str) -> datetime.date:
        time = _moment(text)
        if zone is None:
            time = time.replace(tzinfo=None)
        elif time.tzinfo is None:
            raise ValueError("a Date with a zone")
        elif is_day:
            try:
                time = time.astimezone(zone)
            except OverflowError:  # at the first and the last day of all
                pass
        return time.date() if is_day else time

    return read


def _moment(text: str) -> datetime.datetime:
    try:
        return read_time(_LEAP_SECOND.sub(lambda found: f"{found[0][:-2]}59", text))
    except Unkeepable:
        return datetime.datetime.max


class Instant(NamedTuple):
    """A point in time, comparable with another one if both have a zone or none has.

    Args:
        leap: 1 for a leap second, which comes after the second before.
        fraction: of the second, with all its digits.
    """

    moment: datetime.datetime
    leap: int
    fraction: Decimal


_FRACTION: Final = re.compile(r"[.,]([0-9]+)")
_ZONE: Final = re.compile(r"T[0-9:]*(Z|[+-][0-9:]+)\Z")


def instant(text: str) -> Instant:
    """Returns the instant of a Date. A date is its midnight."""
    found = _FRACTION.search(text)
    whole = text if found is None else text[: found.start()] + text[found.end() :]
    fraction = Decimal(0) if found is None else Decimal(f"0.{found[1]}")
    is_leap = _LEAP_SECOND.search(whole) is not None
    moment = _moment(whole)
    if moment is datetime.datetime.max and (zone := _ZONE.search(whole)) is not None:
        moment = moment.replace(tzinfo=datetime.datetime.fromisoformat(f"2000-01-01T00{zone[1]}").tzinfo)
    return Instant(moment, int(is_leap), fraction)
