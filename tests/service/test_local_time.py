"""The local time of a service, for every form of TZ: that of the C library."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connector.local_time import LOCAL, unknown_zone
from connector.service.poll_window import PollWindow
from tests.events.conftest import ORDER, Bench, bench, serving
from tests.tables import Table, rows, texts
from tests.waiting import wait_for

__all__ = ["bench"]

ZONES = """
    UTC0   CET-1CEST,M3.5.0,M10.5.0/3   <+03>-3   <-0330>3:30<-0230>,M3.2.0,M11.1.0   EST5EDT
    Europe/Vienna   :Europe/Dublin   Australia/Lord_Howe   no such zone
"""


@contextmanager
def local_time(zone: str) -> Iterator[None]:
    """The value of TZ of this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()


@given(seconds=st.integers(min_value=946_684_800, max_value=2_145_916_800))
def test_local_time_is_that_of_the_c_library(seconds: int) -> None:
    with Table() as table:
        for zone in ["", *texts(ZONES)]:
            with table.row(zone), local_time(zone):
                moment = datetime.datetime.fromtimestamp(seconds, LOCAL)
                local = time.localtime(seconds)
                assert tuple(moment.timetuple()[:6]) == tuple(local[:6])
                assert moment.utcoffset() == datetime.timedelta(seconds=local.tm_gmtoff)
                assert moment.tzname() == local.tm_zone
                assert moment.timestamp() == seconds


@rows(
    "day, start, end, minutes",
    [
        ("2026-03-29", "02:10", "02:20", 0),  # the clock skips this window
        ("2026-03-29", "02:30", "03:10", 10),
        ("2026-03-29", "01:50", "02:30", 10),
        ("2026-10-25", "02:10", "02:20", 20),  # the clock shows this window twice
        ("2026-10-25", "01:50", "02:10", 30),
        ("2026-06-01", "02:10", "02:20", 10),
    ],
)
def test_a_window_in_an_hour_that_is_skipped_or_repeated(
    day: str, start: str, end: str, minutes: int
) -> None:
    window = PollWindow(datetime.time.fromisoformat(start), datetime.time.fromisoformat(end))
    with local_time("CET-1CEST,M3.5.0,M10.5.0/3"):
        midnight = int(datetime.datetime.fromisoformat(day).replace(tzinfo=LOCAL).timestamp())
        moments = [datetime.datetime.fromtimestamp(midnight + 60 * minute, LOCAL) for minute in range(6 * 60)]
        opens = [window.opens_at(moment) for moment in moments]
        for moment, there in zip(moments, opens, strict=True):
            assert there is None or 0 < there.timestamp() - moment.timestamp() <= 26 * 3600
    assert opens.count(None) == minutes


@rows(
    "zone, now, start, end, opens",
    [
        ("Europe/Berlin", "2026-03-29 00:31", "00:00", "00:30", "2026-03-30T00:00:00+02:00"),
        ("Europe/Berlin", "2026-03-29 02:59", "02:30", "02:40", "2026-03-30T02:30:00+02:00"),
        ("Europe/Berlin", "2026-03-29 01:59", "02:30", "03:30", "2026-03-29T03:00:00+02:00"),
        ("Europe/Berlin", "2026-10-25 00:31", "00:00", "00:30", "2026-10-26T00:00:00+01:00"),
        ("America/New_York", "2026-03-08 00:31", "00:00", "00:30", "2026-03-09T00:00:00-04:00"),
        ("America/New_York", "2026-11-01 22:01", "21:59", "22:00", "2026-11-02T21:59:00-05:00"),
        ("Australia/Lord_Howe", "2026-10-04 01:59", "02:10", "02:40", "2026-10-04T02:30:00+11:00"),
        ("Australia/Lord_Howe", "2026-04-05 01:40", "01:35", "01:36", "2026-04-05T01:35:00+10:30"),
        ("America/Havana", "2026-03-07 12:00", "00:00", "00:30", "2026-03-09T00:00:00-04:00"),
        ("Asia/Beirut", "2026-03-28 23:31", "23:30", "23:31", "2026-03-29T23:30:00+03:00"),
        ("Asia/Beirut", "2026-03-28 22:00", "23:59", "00:01", "2026-03-28T23:59:00+02:00"),
        ("Pacific/Apia", "2011-12-29 12:00", "11:00", "12:00", "2011-12-31T11:00:00+14:00"),
    ],
)
def test_the_window_names_the_day_on_which_it_opens(
    zone: str, now: str, start: str, end: str, opens: str
) -> None:
    window = PollWindow(datetime.time.fromisoformat(start), datetime.time.fromisoformat(end))
    found = window.opens_at(datetime.datetime.fromisoformat(now).replace(tzinfo=ZoneInfo(zone)))
    assert found is not None
    assert found.isoformat() == opens


CHANGES = {
    "Europe/Berlin": ("2026-03-29T01:00Z", "2026-10-25T01:00Z"),
    "America/New_York": ("2026-03-08T07:00Z", "2026-11-01T06:00Z"),
    "America/St_Johns": ("2011-03-13T03:31Z", "2010-11-07T02:31Z"),
    "Australia/Lord_Howe": ("2026-10-03T15:30Z", "2026-04-04T15:00Z"),
    "America/Havana": ("2026-03-08T05:00Z", "2026-11-01T05:00Z"),
    "Africa/Cairo": ("2026-04-23T22:00Z", "2026-10-29T21:00Z"),
    "Antarctica/Troll": ("2026-03-29T01:00Z", "2026-10-25T01:00Z"),
    "Asia/Gaza": ("2015-03-27T22:01Z", "2012-09-20T22:00Z"),
    "Pacific/Apia": ("2011-12-30T10:00Z", "2012-03-31T14:00Z"),
    "Africa/Casablanca": ("2026-02-15T02:00Z", "2026-03-22T02:00Z"),
}
"""Changes of the clocks, forward and back: at midnight, of half an hour, of two hours, over a whole day."""


@settings(max_examples=60, deadline=None)
@given(data=st.data(), zone=st.sampled_from(sorted(CHANGES)), is_back=st.booleans())
def test_the_window_opens_when_the_minutes_say_so(data: st.DataObject, zone: str, is_back: bool) -> None:
    minutes = st.integers(0, 24 * 60 - 1)
    start, end = (datetime.time(*divmod(data.draw(minutes), 60)) for _ in "se")
    change = datetime.datetime.fromisoformat(CHANGES[zone][is_back])
    now = change + datetime.timedelta(minutes=data.draw(st.integers(-30 * 60, 4 * 60)))

    def is_open(moment: datetime.datetime) -> bool:
        shown = moment.astimezone(ZoneInfo(zone)).time()
        return start <= shown < end if start < end else start == end or not end <= shown < start

    walk = (now + datetime.timedelta(minutes=minute) for minute in range(4 * 24 * 60))
    opens = PollWindow(start, end).opens_at(now.astimezone(ZoneInfo(zone)))
    wait = 0.0 if opens is None else opens.timestamp() - now.timestamp()
    assert now + datetime.timedelta(seconds=wait) == next(filter(is_open, walk))


WINDOW = {"PollStartTime": "00:00", "PollEndTime": "23:59"}


@rows("window", [{}, WINDOW])
@rows("zone", ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3"])
def test_a_service_runs_with_a_zone_of_posix(bench: Bench, zone: str, window: dict[str, Any]) -> None:
    deployment = bench.deploy(InputDestination="queue://orders", **window)
    identity = deployment.send("orders", ORDER)
    with local_time(zone), deployment.running() as adapter, serving(adapter):
        wait_for(lambda: deployment.ids("archive") == [identity])


@rows(
    "zone, is_unknown",
    [
        *((zone, False) for zone in texts(ZONES) if zone != "no such zone"),
        *(
            (zone, False)
            for zone in ("", "UTC", "Etc/UTC", "GMT", "GMT0", "Etc/GMT-1", "Zulu", "WET", "XYZ0")
        ),
        *(
            (zone, False)
            for zone in ("/usr/share/zoneinfo/Asia/Tokyo", "Africa/Abidjan", "Atlantic/Reykjavik")
        ),
        *((zone, True) for zone in ("Europe/Viena", ":Nowhere/Land", "Tokio", "/nowhere")),
    ],
)
def test_a_zone_that_the_machine_does_not_know_is_found(zone: str, is_unknown: bool) -> None:
    with local_time(zone):
        assert unknown_zone() == (zone if is_unknown else None)
