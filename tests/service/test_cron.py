"""A cron comes at the times that crontab(5) says, and each local time comes once."""

from __future__ import annotations

import datetime
import functools
import pickle
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.cron import Cron, CronError
from connector.local_time import LOCAL
from tests.service.test_local_time import local_time
from tests.tables import rows, texts

UTC = datetime.UTC
HOURS = 12
MINUTE = datetime.timedelta(minutes=1)
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
CHANGES = """
    Europe/Vienna 2026-03-29T01:00   Europe/Vienna 2026-10-25T01:00   America/New_York 2026-11-01T06:00
    Australia/Lord_Howe 2026-04-04T15:00   Australia/Lord_Howe 2026-10-03T15:30
    America/Santiago 2026-09-06T04:00   Pacific/Apia 2011-12-30T10:00   Asia/Kathmandu 1985-12-31T18:30
    Africa/Cairo 2026-04-23T22:00
"""


def matches(fields: list[set[int]], either: bool, shown: datetime.datetime) -> bool:
    """The reference: whether a cron with these values comes at a local minute."""
    minutes, hours, days, months, weekdays = fields
    is_day, is_weekday = shown.day in days, shown.isoweekday() % 7 in weekdays
    right_day = is_day or is_weekday if either else is_day and is_weekday
    return shown.minute in minutes and shown.hour in hours and shown.month in months and right_day


@functools.cache
def calendar(zone: ZoneInfo, begin: datetime.datetime) -> list[tuple[datetime.datetime, datetime.datetime]]:
    """Returns what the clocks show at each minute, and the minute in UTC."""
    moments = (begin + number * MINUTE for number in range(-1, HOURS * 60 + 1))
    return [(moment.astimezone(zone).replace(tzinfo=None, fold=0), moment) for moment in moments]


def reference(
    fields: list[set[int]], either: bool, begin: datetime.datetime, zone: ZoneInfo
) -> list[datetime.datetime]:
    """Returns the moments of a cron: when the clocks first show a local minute, or a later one."""
    found: set[datetime.datetime] = set()
    (highest, _), *later = calendar(zone, begin)
    for local, moment in later:
        while highest < local:
            highest += MINUTE
            if matches(fields, either, highest):
                found.add(moment)
    return sorted(found)


@st.composite
def crons(draw: st.DrawFn) -> tuple[str, list[set[int]], bool]:
    """A cron, the values of its fields, and whether one kind of day is enough."""
    written, values = [], []
    for least, most in ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7)):
        kind = draw(st.sampled_from(["*", "*", "step", "one", "range", "list"]))
        first, last = sorted((draw(st.integers(least, most)), draw(st.integers(least, most))))
        step = draw(st.integers(1, 20))
        text, some = {
            "*": ("*", range(least, most + 1)),
            "step": (f"*/{step}", range(least, most + 1, step)),
            "one": (str(first), range(first, first + 1)),
            "range": (f"{first}-{last}/{step}", range(first, last + 1, step)),
            "list": (f"{last},{first}", [first, last]),
        }[kind]
        if most == 7 and kind == "one" and draw(st.booleans()):
            text = DAYS[first % 7].title()
        written.append(text)
        values.append({one % 7 for one in some} if most == 7 else set(some))
    either = "*" not in written[2] and "*" not in written[4]
    return " ".join(written), values, either


@settings(max_examples=40)
@given(st.sampled_from(texts(CHANGES)), crons(), st.integers(0, 59))
def test_a_cron_comes_as_a_simple_reference_says(
    change: str, cron: tuple[str, list[set[int]], bool], second: int
) -> None:
    name, _, at = change.partition(" ")
    text, fields, either = cron
    if not either and min(fields[2]) > 29 and fields[3] <= {2}:
        return
    zone = ZoneInfo(name)
    begin = datetime.datetime.fromisoformat(at).replace(tzinfo=UTC) - datetime.timedelta(hours=4)
    wanted = reference(fields, either, begin, zone)
    found: list[datetime.datetime] = []
    moment = Cron(text).next_after((begin + datetime.timedelta(seconds=second)).astimezone(zone))
    while moment.astimezone(UTC) <= begin + datetime.timedelta(hours=HOURS):
        found.append(moment.astimezone(UTC))
        moment = Cron(text).next_after(moment)
    assert found == [one for one in wanted if one > begin + datetime.timedelta(seconds=second)]


@rows(
    "text, after, wanted",
    [
        ("30 2 * * *", "2026-03-28T12:00", ["2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"]),  # skipped
        ("30 2 * * *", "2026-10-24T12:00", ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"]),  # doubled
        ("0 6 * * 1-5", "2026-06-05T12:00", ["2026-06-08T06:00+02:00", "2026-06-09T06:00+02:00"]),
        ("0 6 * * fri-sun", "2026-06-05T12:00", ["2026-06-06T06:00+02:00", "2026-06-07T06:00+02:00"]),
        ("0 0 13 * 5", "2026-02-01T12:00", ["2026-02-06T00:00+01:00", "2026-02-13T00:00+01:00"]),
        ("0 0 13 * Fri", "2026-03-01T00:00", ["2026-03-06T00:00+01:00", "2026-03-13T00:00+01:00"]),
        ("0 0 29 feb *", "2026-06-01T12:00", ["2028-02-29T00:00+01:00", "2032-02-29T00:00+01:00"]),
    ],
)  # fmt: skip
def test_times_of_a_cron(text: str, after: str, wanted: list[str]) -> None:
    moment = datetime.datetime.fromisoformat(after).replace(tzinfo=ZoneInfo("Europe/Vienna"))
    cron = pickle.loads(pickle.dumps(Cron(text)))
    for one in wanted:
        moment = cron.next_after(moment)
        assert moment.timestamp() == datetime.datetime.fromisoformat(one).timestamp()


@rows("zone", ["CET-1CEST,M3.5.0,M10.5.0/3", "Europe/Vienna"])
def test_a_cron_knows_the_local_time_of_the_c_library(zone: str) -> None:
    with local_time(zone):
        for day, wanted in ((28, "2026-03-29T01:00Z"), (29, "2026-03-30T00:30Z")):
            found = Cron("30 2 * * *").next_after(datetime.datetime(2026, 3, day, 12, tzinfo=LOCAL))
            assert found.timestamp() == datetime.datetime.fromisoformat(wanted).timestamp()
        found = datetime.datetime(2026, 10, 24, 12, tzinfo=LOCAL)
        for wanted in ("2026-10-25T00:30Z", "2026-10-26T01:30Z"):
            found = Cron("30 2 * * *").next_after(found)
            assert found.timestamp() == datetime.datetime.fromisoformat(wanted).timestamp()


@rows(
    "text, words",
    [
        ("0 6 * *", "4 fields"),
        ("60 6 * * *", "a number from 0 to 59"),
        ("0 6 0 * *", "a number from 1 to 31"),
        ("0 6 * * 8", "a number from 0 to 7, or sun to sat"),
        ("0 6 * foo *", "or jan to dec"),
        ("*/0 6 * * *", "from 1 up"),
        ("5/10 * * * *", "5-59/10"),
        ("0 6 * * 5-1", "ends before it begins"),
        ("0 6 * * mon,", "''"),
        ("0 0 30 2 *", "never comes"),
        ("0 0 31 4,6,9,11 *", "never comes"),
        ("-1 * * * *", "''"),
        ("² * * * *", "from 0 to 59"),
    ],
)
def test_a_text_that_is_no_cron_is_refused(text: str, words: str) -> None:
    with pytest.raises(CronError) as refused:
        Cron(text)
    assert words in str(refused.value)
