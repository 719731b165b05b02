"""The local time of a service, for every form of TZ: that of the C library."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.local_time import LOCAL
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
        waits = [
            window.opens_in(datetime.datetime.fromtimestamp(midnight + 60 * minute, LOCAL))
            for minute in range(6 * 60)
        ]
    assert waits.count(0) == minutes
    assert all(0 <= wait <= 26 * 3600 for wait in waits)


WINDOW = {"PollStartTime": "00:00", "PollEndTime": "23:59"}


@rows("window", [{}, WINDOW])
@rows("zone", ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3"])
def test_a_service_runs_with_a_zone_of_posix(bench: Bench, zone: str, window: dict[str, Any]) -> None:
    deployment = bench.deploy(InputDestination="queue://orders", **window)
    identity = deployment.send("orders", ORDER)
    with local_time(zone), deployment.running() as adapter, serving(adapter):
        wait_for(lambda: deployment.ids("archive") == [identity])
