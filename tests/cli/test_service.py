"""The service goes by the monotonic clock, and by local time for its daily window alone."""

from __future__ import annotations

import datetime
import functools
import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from connector.adapter import Adapter
from connector.errors import ProviderError
from connector.events.outcome import Outcome
from connector.events.summary import Summary
from connector.service import PollWindow, Service

VIENNA = ZoneInfo("Europe/Vienna")


class SimulatedClock:
    """Time passes while somebody waits. The local time may be set, as an administrator would."""

    def __init__(
        self, local: datetime.datetime = datetime.datetime(2026, 6, 1, 12, 0, tzinfo=VIENNA)
    ) -> None:
        self.seconds = 0.0
        self._local_at_0 = local.astimezone(datetime.UTC)
        self.at: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self.seconds

    def local(self) -> datetime.datetime:
        return (self._local_at_0 + datetime.timedelta(seconds=self.seconds)).astimezone(VIENNA)

    def set_local(self, by: datetime.timedelta) -> None:
        self._local_at_0 += by

    def wait(self, event: threading.Event, seconds: float | None) -> None:
        assert seconds is not None
        assert seconds > 0, "a service that does not wait is busy"
        end = self.seconds + seconds
        while not event.is_set() and self.at and self.at[0][0] <= end:
            when, what = self.at.pop(0)
            self.seconds = max(self.seconds, when)
            what()
        if not event.is_set():
            self.seconds = end


class RecordingAdapter:
    """Stands for the adapter: notes when it is asked to work, and takes ``poll_seconds`` for a poll."""

    has_inputs = True

    def __init__(self, clock: SimulatedClock, poll_seconds: float = 0.0, **connector: Any) -> None:
        defaults = {"poll_frequency": 10_000, "poll_start_time": None, "poll_end_time": None}
        self.configuration = SimpleNamespace(connector=SimpleNamespace(**{**defaults, **connector}))
        self.summary = Summary(["queue://in"])
        self._clock = clock
        self._poll_seconds = poll_seconds
        self.polls: list[float] = []
        self.recoveries: list[float] = []
        self.poll_failure: Exception | None = None
        self.recovery_failure: Exception | None = None

    def serve_poll(self) -> None:
        self.polls.append(self._clock.seconds)
        self._clock.seconds += self._poll_seconds
        if self.poll_failure is not None:
            raise self.poll_failure

    def serve_recovery(self) -> None:
        self.recoveries.append(self._clock.seconds)
        if self.recovery_failure is not None:
            raise self.recovery_failure

    def request_stop(self) -> None:
        pass


def serve(
    clock: SimulatedClock,
    adapter: RecordingAdapter,
    seconds: float,
    *events: tuple[float, Callable[[], object]],
) -> str | None:
    """Runs a service for so long; ``events`` happen at their seconds."""
    service = Service(cast(Adapter, adapter), clock)
    clock.at = sorted([*events, (seconds, service.stop)], key=lambda event: event[0])
    return service.run()


@pytest.mark.parametrize("hours", [-1, 1, -24 * 365, 24 * 365])
def test_polls_and_recovery_go_on_when_the_system_time_is_set(hours: int) -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock, poll_frequency=15_000)
    assert serve(clock, adapter, 61, (20, lambda: clock.set_local(datetime.timedelta(hours=hours)))) is None
    assert adapter.polls == [0, 15, 30, 45, 60]
    assert adapter.recoveries == [10, 20, 30, 40, 50, 60]


def test_each_minute_in_which_something_happened_has_a_line(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock)

    def settle(kind: str) -> None:
        adapter.summary.settled("queue://in", "ID:1", Outcome(0, kind), discarded=False)

    caplog.set_level(logging.INFO, "connector.service")
    hour = datetime.timedelta(hours=1)
    settled = [(5.0, "published"), (65.0, "published"), (66.0, "failed"), (250.0, "unsubscribed")]
    events = [(at, functools.partial(settle, kind)) for at, kind in settled]
    serve(clock, adapter, 400, (30, lambda: clock.set_local(-hour)), *events)
    said = [vars(record) for record in caplog.records if record.getMessage() == "summary"]
    names = ("claimed", "published", "failed", "unsubscribed", "duplicates", "expired")
    assert [[line[name] for name in names] for line in said] == [
        [1, 1, 0, 0, 0, 0],
        [2, 1, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],
    ]


def test_the_frequency_counts_from_the_end_of_a_poll() -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock, poll_seconds=7, poll_frequency=3_000)
    serve(clock, adapter, 25)
    assert adapter.polls == [0, 10, 20]


def test_without_polls_dead_instances_are_looked_for_all_the_same() -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock, poll_frequency=None)
    serve(clock, adapter, 35)
    assert adapter.polls == []
    assert adapter.recoveries == [10, 20, 30]


def test_a_window_opens_by_local_time_and_follows_it_when_it_is_set() -> None:
    clock = SimulatedClock()
    noon = 12 * 3600
    adapter = RecordingAdapter(
        clock,
        poll_frequency=600_000,
        poll_start_time=datetime.time(14, 0),
        poll_end_time=datetime.time(15, 0),
    )
    back = datetime.timedelta(hours=-1)
    # At half past two the clock is set back to half past one, so that the window opens once more at two.
    serve(clock, adapter, 4 * 3600 + 10, (2.5 * 3600, lambda: clock.set_local(back)))
    hours = [(noon + seconds) / 3600 - (seconds > 2.5 * 3600) for seconds in adapter.polls]
    assert hours[0] == 14.0
    assert all(14 <= hour < 15 for hour in hours)
    assert sum(seconds < 2.5 * 3600 for seconds in adapter.polls) == 3
    again = [seconds for seconds in adapter.polls if seconds > 2.5 * 3600]
    assert again[0] - 3 * 3600 <= 30, "within half a minute after the local time is two again"
    assert len(again) == 6


@pytest.mark.parametrize(
    ("start", "end", "now", "seconds"),
    [
        ("06:00", "22:00", "2026-06-01 05:00", 3600),
        ("06:00", "22:00", "2026-06-01 06:00", 0),
        ("06:00", "22:00", "2026-06-01 22:00", 8 * 3600),
        ("22:00", "06:00", "2026-06-01 23:00", 0),
        ("22:00", "06:00", "2026-06-01 05:59", 0),
        ("22:00", "06:00", "2026-06-01 21:00", 3600),
        # the night in which clocks go forward is an hour shorter, the one in which they go back longer
        ("06:00", "22:00", "2026-03-28 23:00", 6 * 3600),
        ("06:00", "22:00", "2026-10-24 23:00", 8 * 3600),
    ],
)
def test_a_window_is_open_or_opens_in_so_many_seconds(start: str, end: str, now: str, seconds: int) -> None:
    window = PollWindow(datetime.time.fromisoformat(start), datetime.time.fromisoformat(end))
    assert window.opens_in(datetime.datetime.fromisoformat(now).replace(tzinfo=VIENNA)) == seconds


def test_the_first_failure_is_what_has_ended_the_service() -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock)
    adapter.poll_failure = ProviderError("the disk is gone")
    adapter.recovery_failure = ProviderError("the adapter has no connection")
    assert serve(clock, adapter, 60) == "the disk is gone"
    assert adapter.recoveries == []
