"""The local time of a service, for every form of TZ: that of the C library."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connector.local_time import LOCAL
from connector.service.poll_window import PollWindow
from tests.crash.conftest import Deploy, deploy, provider_type
from tests.waiting import wait_for

__all__ = ["deploy", "provider_type"]

JAVA = False

ZONES = [
    "UTC0",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "<+03>-3",
    "<-0330>3:30<-0230>,M3.2.0,M11.1.0",
    "EST5EDT",
    "Europe/Vienna",
    ":Europe/Dublin",
    "Australia/Lord_Howe",
    "",
    "no such zone",
]


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """A value of TZ, which holds in this process for the test."""
    yield from _with_zone(request.param)


def _with_zone(value: str) -> Iterator[str]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = value
    time.tzset()
    yield value
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seconds=st.integers(min_value=946_684_800, max_value=2_145_916_800))
def test_local_time_is_that_of_the_c_library(zone: str, seconds: int) -> None:
    moment = datetime.datetime.fromtimestamp(seconds, LOCAL)
    local = time.localtime(seconds)
    assert tuple(moment.timetuple()[:6]) == tuple(local[:6])
    assert moment.utcoffset() == datetime.timedelta(seconds=local.tm_gmtoff)
    assert moment.tzname() == local.tm_zone
    assert moment.timestamp() == seconds


@pytest.fixture
def vienna_by_rule() -> Iterator[str]:
    yield from _with_zone("CET-1CEST,M3.5.0,M10.5.0/3")


@pytest.mark.parametrize(
    ("day", "start", "end", "minutes"),
    [
        ("2026-03-29", "02:10", "02:20", 0),  # the clock skips this window
        ("2026-03-29", "02:30", "03:10", 10),
        ("2026-03-29", "01:50", "02:30", 10),
        ("2026-10-25", "02:10", "02:20", 20),  # the clock shows this window twice
        ("2026-10-25", "01:50", "02:10", 30),
        ("2026-06-01", "02:10", "02:20", 10),
    ],
)
def test_a_window_in_the_hour_that_is_skipped_or_repeated(
    vienna_by_rule: str, day: str, start: str, end: str, minutes: int
) -> None:
    window = PollWindow(datetime.time.fromisoformat(start), datetime.time.fromisoformat(end))
    midnight = int(datetime.datetime.fromisoformat(day).replace(tzinfo=LOCAL).timestamp())
    waits = [
        window.opens_in(datetime.datetime.fromtimestamp(midnight + 60 * minute, LOCAL))
        for minute in range(6 * 60)
    ]
    assert waits.count(0) == minutes
    assert all(0 <= wait <= 26 * 3600 for wait in waits)


@pytest.mark.parametrize("window", [{}, {"PollStartTime": "00:00", "PollEndTime": "23:59"}])
@pytest.mark.parametrize("zone", ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3"])
def test_a_service_runs_with_a_zone_of_posix(deploy: Deploy, zone: str, window: dict[str, str]) -> None:
    deployment = deploy(connector=window, fresh=True)
    ids = deployment.fill("in", [""])
    run = deployment.start(TZ=zone)
    wait_for(lambda: deployment.ids("archive") == dict.fromkeys(ids, 1), 120, what=run.errors)
    run.stop()
