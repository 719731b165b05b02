"""Times of a crontab: five fields as in crontab(5), by the local time of a zone."""

from __future__ import annotations

import datetime
import functools
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

_SECOND: Final = datetime.timedelta(seconds=1)
_DAY: Final = datetime.timedelta(days=1)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONGEST: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""Days of the months, in a leap year."""


class CronError(ValueError):
    """A text is no cron.

    Attributes:
        found, expected: what is wrong, and what is right.
    """

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"{found}, expected {expected}")
        self.found = found
        self.expected = expected


class _Field(NamedTuple):
    title: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 7, _WEEKDAYS),
)
FIELDS: Final = len(_FIELDS)
_EXPECTED: Final = "minute, hour, day of month, month and weekday as in crontab(5), such as 0 6 * * mon-fri"


@dataclass(frozen=True, slots=True)
class Cron:
    """The times of a crontab. 0 and 7 are Sunday. A day of month and a weekday together mean either.

    A local time that a clock change skips counts as the moment of the change. Of a local time that a clock
    change doubles, the first counts. So each local time comes once.

    Args:
        text: the five fields.

    Raises:
        CronError: the text is no cron, or none of its days ever comes.
    """

    text: str

    def __post_init__(self) -> None:
        _read(self.text)

    def next_after(self, moment: datetime.datetime) -> datetime.datetime:
        """Returns the first time after a moment, in its zone.

        Args:
            moment: local time, with the zone.
        """
        local_times = _local_times(self.text)
        shown = moment.replace(tzinfo=datetime.UTC, fold=0)
        instant = moment.astimezone(datetime.UTC)
        while True:
            shown = local_times.get_next_fire_time(shown, shown)
            found = _instant(shown.replace(tzinfo=None), moment.tzinfo)
            if found > instant:
                return found.astimezone(moment.tzinfo)


def _instant(local: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    """Returns the moment of a local time: its first one, or the moment of the change that skips it."""
    moment = local.replace(tzinfo=zone).astimezone(datetime.UTC)
    if _shown(moment, zone) == local:
        return moment
    before, after = moment - _DAY, moment + _DAY
    while _shown(before, zone) >= local:
        before -= _DAY
    while _shown(after, zone) < local:
        after += _DAY
    while after - before > _SECOND:
        middle = before + (after - before) // _SECOND // 2 * _SECOND
        if _shown(middle, zone) < local:
            before = middle
        else:
            after = middle
    return after


def _shown(moment: datetime.datetime, zone: datetime.tzinfo | None) -> datetime.datetime:
    """Returns what the clocks of a zone show at a moment."""
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


@functools.lru_cache(maxsize=256)
def _local_times(text: str) -> Any:
    """Returns the trigger of APScheduler that counts local times, in a calendar without clock changes."""
    from apscheduler.triggers.combining import OrTrigger  # which most adapters never need
    from apscheduler.triggers.cron import CronTrigger

    minutes, hours, days, months, weekdays = _read(text)
    shared = {"minute": _list(minutes), "hour": _list(hours), "month": _list(months)}
    of_days = {"day": _list(days)}
    of_weekdays = {"day_of_week": ",".join(_WEEKDAYS[one] for one in sorted(weekdays))}
    if _means_either(text):
        either = [CronTrigger(**shared, **one, timezone=datetime.UTC) for one in (of_days, of_weekdays)]
        return OrTrigger(either)
    return CronTrigger(**shared, **of_days, **of_weekdays, timezone=datetime.UTC)


def _list(values: frozenset[int]) -> str:
    return ",".join(map(str, sorted(values)))


def _means_either(text: str) -> bool:
    """Whether a day of month or a weekday is enough, because both are restricted (crontab(5))."""
    _, _, day, _, weekday = text.split()
    return "*" not in day and "*" not in weekday


@functools.lru_cache(maxsize=256)
def _read(text: str) -> tuple[frozenset[int], ...]:
    """Returns the values of the five fields. Sunday is 0.

    Raises:
        CronError: as :class:`Cron`.
    """
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise CronError(f"{text!r}, which has {len(parts)} fields", _EXPECTED)
    minutes, hours, days, months, weekdays = (
        frozenset().union(*(_values(one, field) for one in part.split(",")))
        for part, field in zip(parts, _FIELDS, strict=True)
    )
    if not _means_either(text) and all(min(days) > _LONGEST[month - 1] for month in months):
        raise CronError(f"{text!r}: a day that never comes", "a day that one of the months has")
    return minutes, hours, days, months, frozenset(one % 7 for one in weekdays)


def _values(item: str, field: _Field) -> frozenset[int]:
    """Returns the values of an item of a list: ``*``, ``5``, ``1-5``, ``mon-fri``, ``*/2`` or ``1-31/2``."""
    written, slash, step_text = item.partition("/")
    first_text, dash, last_text = written.partition("-")
    step = 1
    if slash:
        step = int(step_text) if step_text.isascii() and step_text.isdigit() else 0
        if not step:
            raise CronError(f"the step {step_text!r} of the {field.title}", "a whole number from 1 up")
        if not dash and written != "*":
            raise CronError(
                f"the step of the single {field.title} {item!r}",
                f"a range: {written}-{field.most}/{step_text}",
            )
    if written == "*":
        return frozenset(range(field.least, field.most + 1, step))
    first = _number(first_text, field, item)
    last = _number(last_text, field, item) if dash else first
    if dash and field.names == _WEEKDAYS and last == 0 < first:
        last = 7  # the week may end with Sunday
    if last < first:
        raise CronError(f"the {field.title} {item!r} ends before it begins", "two ranges with a comma")
    return frozenset(range(first, last + 1, step))


def _number(text: str, field: _Field, item: str) -> int:
    """Returns the number that a text means in a field."""
    least = field.least
    if text.casefold() in field.names:
        return field.names.index(text.casefold()) + least
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
    if not least <= number <= field.most:
        names = f", or {field.names[0]} to {field.names[-1]}" if field.names else ""
        raise CronError(
            f"{text!r} in the {field.title} {item!r}", f"a number from {least} to {field.most}{names}"
        )
    return number
