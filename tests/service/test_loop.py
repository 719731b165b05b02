"""The service goes by the monotonic clock, and by local time for its daily window alone."""

from __future__ import annotations

import datetime
import functools
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from connector.cron import Cron
from connector.errors import ProviderError
from connector.events.cycle_report import CycleReport
from connector.events.outcome import Outcome
from connector.events.summary import Summary
from connector.service.adapter import Adapter
from connector.service.loop import Service
from connector.status import OutcomeKind, ReturnCode
from tests.tables import rows

VIENNA = ZoneInfo("Europe/Vienna")

GOOD = CycleReport(ReturnCode.SUCCEED, claimed=3, settled=3)
FULL = CycleReport(ReturnCode.SUCCEED, claimed=3, settled=3, more=True)
GAVE_BACK = CycleReport(ReturnCode.SUCCEED, settled=2, returned=1, more=True)
NOT_ACTIVE = CycleReport(ReturnCode.APPRESPONSETIMEOUT, returned=3, more=True)
ROOM = CycleReport(ReturnCode.SUCCEED, settled=3, more=True)

BURST = 0.001
"""Seconds from a message that comes to the poll."""


class SimulatedClock:
    """Time passes while somebody waits. The local time may be set, as an administrator would."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._local_at_0 = datetime.datetime(2026, 6, 1, 10, 0, tzinfo=datetime.UTC)  # noon in Vienna
        self.at: list[tuple[float, Callable[[], object]]] = []

    def monotonic(self) -> float:
        return self.seconds

    def local(self) -> datetime.datetime:
        return (self._local_at_0 + datetime.timedelta(seconds=self.seconds)).astimezone(VIENNA)

    def set_local(self, by: datetime.timedelta) -> None:
        self._local_at_0 += by

    def wait(self, is_over: Callable[[], bool], seconds: float | None) -> None:
        """Lets time pass until that is so, or for ``seconds``."""
        assert seconds is not None
        assert seconds > 0, "a service that does not wait is busy"
        end = self.seconds + seconds
        while not is_over() and self.at and self.at[0][0] <= end:
            when, what = self.at.pop(0)
            self.seconds = max(self.seconds, when)
            what()
        if not is_over():
            self.seconds = end


class RecordingAdapter:
    """Stands for the adapter: notes when it is asked to work, and takes ``poll_seconds`` for a poll.

    Each poll takes its report from ``reports``; one that finds none there has taken what waited. A batch that
    ends puts its report into ``ended``.
    """

    has_inputs = True
    recovery_interval = 10.0

    def __init__(self, clock: SimulatedClock, poll_seconds: float = 0.0, **connector: Any) -> None:
        defaults = {"poll_frequency": 10_000, "poll_start_time": None, "poll_end_time": None, "wake": True}
        self.configuration = SimpleNamespace(connector=SimpleNamespace(**{**defaults, **connector}))
        self.summary = Summary(["queue://in"])
        self._clock = clock
        self._poll_seconds = poll_seconds
        self.polls: list[float] = []
        self.aheads: list[bool] = []
        self.agains: list[float] = []
        self.again_reports: list[CycleReport] = []
        self.due_at = math.inf
        self.recoveries: list[float] = []
        self.poll_failure: Exception | None = None
        self.recovery_failure: Exception | None = None
        self.reports: list[CycleReport] = []
        self.recovery_report = GOOD
        self.ended: list[CycleReport] = []
        self.has_finished = False
        self.stopping = False
        self._has_come = False

    def serve(self, *, polls: bool = True, ahead: bool = False, again: bool = False) -> CycleReport:
        if again:
            self.agains.append(round(self._clock.seconds, 6))
            return self.again_reports.pop(0) if self.again_reports else CycleReport()
        if not polls:
            self.recoveries.append(self._clock.seconds)
            if self.recovery_failure is not None:
                raise self.recovery_failure
            return self.recovery_report
        self.aheads.append(ahead)
        self.polls.append(round(self._clock.seconds, 6))
        self._has_come = False
        self._clock.seconds += self._poll_seconds
        if self.poll_failure is not None:
            raise self.poll_failure
        return self.reports.pop(0) if self.reports else GOOD

    def start_timers(self) -> None:
        pass

    def due_in(self) -> float:
        return self.due_at - self._clock.seconds

    def look(self) -> CycleReport:
        return CycleReport()

    def settle_ended(self) -> CycleReport:
        return self.ended.pop(0) if self.ended else CycleReport()

    def batch_ends(self, report: CycleReport) -> None:
        self.ended.append(report)

    def finish(self) -> CycleReport:
        self.has_finished = True
        return CycleReport()

    def message_comes(self) -> None:
        self._has_come = True

    def wait(self, seconds: float, *, listens: bool) -> bool:
        self._clock.wait(lambda: bool(self.stopping or self.ended or (listens and self._has_come)), seconds)
        return listens and self._has_come

    def wait_to_stop(self, seconds: float | None) -> None:
        self._clock.wait(lambda: self.stopping, seconds)

    def request_stop(self) -> None:
        self.stopping = True


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


@rows("hours", [-1, 1, -24 * 365, 24 * 365])
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
        outcome = Outcome(OutcomeKind(kind))
        adapter.summary.count_outcome("queue://in", "ID:1", outcome, discarded=False)

    caplog.set_level(logging.INFO, "connector.service")
    hour = datetime.timedelta(hours=1)
    settled = [(5.0, "published"), (65.0, "published"), (66.0, "failed"), (250.0, "unsubscribed")]
    events = [(at, functools.partial(settle, kind)) for at, kind in settled]
    serve(clock, adapter, 400, (30, lambda: clock.set_local(-hour)), *events)
    said = [vars(record) for record in caplog.records if record.getMessage() == "summary"]
    names = ("claimed", "published", "failed", "unsubscribed", "duplicates", "expired")
    counts = [[line[name] for name in names] for line in said]
    assert counts == [[1, 1, 0, 0, 0, 0], [2, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]]


MESSAGE = None
"""An event: a message comes. A report is an event, too: a batch ends with it."""


def served(
    seconds: float,
    *events: tuple[float, CycleReport | None],
    reports: Sequence[CycleReport] = (),
    ended: Sequence[CycleReport] = (),
    recovery_report: CycleReport = GOOD,
    poll_seconds: float = 0.0,
    **connector: Any,
) -> RecordingAdapter:
    """The adapter of a service that has run for so long."""
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock, poll_seconds, **connector)
    adapter.reports, adapter.ended = list(reports), list(ended)
    adapter.recovery_report = recovery_report

    def happen(event: CycleReport | None) -> None:
        if event is None:
            adapter.message_comes()
        else:
            adapter.batch_ends(event)

    serve(clock, adapter, seconds, *((at, functools.partial(happen, event)) for at, event in events))
    return adapter


RUNNING = CycleReport(ReturnCode.SUCCEED, settled=3)
IDLE = replace(RUNNING, idle=True)
MINUTELY: dict[str, Any] = {"poll_frequency": 60_000}
BURST_OF_9 = [(20 + number * BURST / 10, MESSAGE) for number in range(9)]


@rows(
    "seconds, events, settings, polls",
    [
        # the frequency counts from the end of a poll
        (25, [], {"poll_seconds": 7, "poll_frequency": 3_000}, [0, 10, 20]),
        # a message that comes begins a poll, and a burst is one
        (120, [*BURST_OF_9, (30, MESSAGE)], MINUTELY, [0, 20 + BURST, 30 + BURST, 90 + BURST]),
        # a service that is stopped while a burst comes begins no poll
        (20 + BURST / 2, [(20, MESSAGE)], MINUTELY, [0]),
        # while more waits than a poll takes the next follows at once
        (90, [], {"reports": [FULL, FULL, GOOD], "poll_seconds": 1, **MINUTELY}, [0, 1, 2, 63]),
        # when a batch ends, a destination that was full is polled at once
        (50, [(20, ROOM), (30, GOOD)], MINUTELY, [0, 20]),
        # once nothing runs the frequency counts from the end of the last batch
        (9, [(1, RUNNING), (2, IDLE)], {"poll_frequency": 3_000, "wake": False}, [0, 5, 8]),
        # a rate hastens no poll without wake, or after a failure
        (15, [], {"ended": [CycleReport(more_in=5)], "wake": False}, [0, 10]),
        (15, [], {"ended": [CycleReport(more_in=5)], "reports": [NOT_ACTIVE, GOOD]}, [0, 10]),
        # without wake every poll waits
        (130, [(20, MESSAGE)], {"reports": [FULL, FULL], "wake": False, **MINUTELY}, [0, 60, 120]),
        # after a recovery that could not settle all the next poll waits
        (16, [(5, MESSAGE), (11, MESSAGE)], {"recovery_report": NOT_ACTIVE, **MINUTELY}, [0, 5 + BURST]),
    ],
)
def test_polls_begin(seconds: float, events: list[Any], settings: dict[str, Any], polls: list[float]) -> None:
    adapter = served(seconds, *events, **settings)
    assert (adapter.polls, adapter.has_finished) == (polls, True)


def test_a_message_that_comes_during_a_poll_begins_the_next() -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock, poll_frequency=60_000)
    first = adapter.serve

    def poll(*, polls: bool = True, ahead: bool = False, again: bool = False) -> CycleReport:
        report = first(polls=polls, ahead=ahead)
        if len(adapter.polls) == 1:
            adapter.message_comes()
        return report

    adapter.serve = poll  # type: ignore[method-assign]
    serve(clock, adapter, 50)
    assert adapter.polls == [0, BURST]


@rows("frequency, polls", [(60_000, [0, 15 + BURST]), (None, [])])  # with PollFrequency: no, no poll begins
def test_recovery_goes_on_beside_messages_that_come(frequency: int | None, polls: list[float]) -> None:
    adapter = served(35, (15, MESSAGE), poll_frequency=frequency)
    assert (adapter.polls, adapter.recoveries) == (polls, [10, 20, 30])


def test_only_a_message_or_a_full_poll_lets_a_poll_be_ahead() -> None:
    adapter = served(8, (1, MESSAGE), reports=[GOOD, GOOD, FULL, GOOD], poll_frequency=3_000)
    assert adapter.polls == [0, 1 + BURST, 4 + BURST, 4 + BURST, 7 + BURST]
    assert adapter.aheads == [False, True, False, True, False]


def test_a_rate_lets_the_next_poll_come_when_more_may_be_claimed() -> None:
    """Also when the last batch ends meanwhile."""
    idle = CycleReport(ReturnCode.SUCCEED, settled=3, idle=True, more_in=4)
    adapter = served(20, (1, idle), ended=[CycleReport(more_in=5)], poll_frequency=60_000)
    assert adapter.polls == [0, 5]
    assert adapter.aheads == [False, True]


@rows("ends_later", [False, True])
@rows("report", [GAVE_BACK, NOT_ACTIVE])
def test_after_something_went_back_the_next_poll_waits(report: CycleReport, ends_later: bool) -> None:
    comes = [(number / 2, MESSAGE) for number in range(1, 14)]
    ends = [(0.25, report), (3.3, report)] if ends_later else []
    reports = [] if ends_later else [report, report, GOOD]
    adapter = served(8, *comes, *ends, reports=reports, poll_frequency=3_000)
    assert adapter.polls[:3] == ([0, 3.25, 6.3] if ends_later else [0, 3, 6])
    assert adapter.polls[3:] == [6.5 + BURST], "after a good one a message begins a poll again"


def test_outside_of_the_window_a_message_begins_no_poll() -> None:
    window: dict[str, Any] = {"poll_start_time": datetime.time(11, 0), "poll_end_time": datetime.time(13, 0)}
    hours = [(hour * 3600.0, MESSAGE) for hour in (0.5, 1.5, 2.5, 22.5, 23.5)]
    adapter = served(24.75 * 3600, *hours, poll_frequency=4 * 3600_000, **window)
    half_past_twelve, eleven, half_past_eleven = 1800 + BURST, 23 * 3600, 23.5 * 3600 + BURST
    assert adapter.polls == [0, half_past_twelve, pytest.approx(eleven, abs=0.1), half_past_eleven]


def test_a_window_opens_by_local_time_and_follows_it_when_it_is_set() -> None:
    clock, noon = SimulatedClock(), 12 * 3600
    window = {"poll_start_time": datetime.time(14, 0), "poll_end_time": datetime.time(15, 0)}
    adapter = RecordingAdapter(clock, poll_frequency=600_000, **cast("dict[str, Any]", window))
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


def test_a_closed_window_is_logged_once_with_its_opening_time(caplog: pytest.LogCaptureFixture) -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(
        clock, poll_start_time=datetime.time(14, 0), poll_end_time=datetime.time(15, 0)
    )
    with caplog.at_level(logging.INFO):
        serve(clock, adapter, 4 * 3600)
    lines = [one for one in caplog.records if one.getMessage() == "polls wait for the daily window"]
    opens = [vars(one)["opens"] for one in lines]
    assert opens == ["2026-06-01T14:00:00+02:00", "2026-06-02T14:00:00+02:00"]


FAILED = CycleReport(ReturnCode.APPRESPONSETIMEOUT, provider_failed=True)


@rows(
    "events, settings, polls",
    [
        # no message begins a poll between the times
        ([(10, MESSAGE), (5000, MESSAGE)], {}, [3600, 7200]),
        # polls go on while more waits, also after batches
        ([(3610, ROOM), (3620, GOOD)], {"reports": [FULL, GOOD]}, [3600, 3600, 3610, 7200]),
        # without wake the rest waits for the next time
        ([], {"reports": [FULL, GOOD], "wake": False}, [3600, 7200]),
        # a provider that has failed is tried again
        ([], {"reports": [FAILED, FAILED, GOOD]}, [3600, 3630, 3660, 7200]),
    ],
)
def test_polls_begin_at_the_times_of_a_cron(
    events: list[Any], settings: dict[str, Any], polls: list[float]
) -> None:
    adapter = served(7500, *events, poll_frequency=Cron("0 13,14 * * *"), **settings)
    assert [round(one) for one in adapter.polls] == [pytest.approx(one, abs=1) for one in polls]


def test_between_the_times_of_a_cron_events_come_again_when_they_are_due() -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock, poll_frequency=Cron("0 13 * * *"))
    adapter.due_at = 45.5

    def come() -> None:
        adapter.due_at = math.inf

    adapter.again_reports = [CycleReport(), CycleReport(), FULL]
    serve(clock, adapter, 100, (45.6, come))
    assert adapter.agains[:3] == [0, 30, 45.5]
    assert adapter.agains[3] == pytest.approx(45.6), "what else is due is taken at once"
    assert len(adapter.agains) < 10
    assert adapter.polls == []


def test_a_cron_goes_by_local_time_when_it_is_set() -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock, poll_frequency=Cron("0 13 * * *"))
    serve(clock, adapter, 7300, (3700, lambda: clock.set_local(datetime.timedelta(hours=-1))))
    assert [round(one) for one in adapter.polls] == [3600, 7200]


def test_the_first_failure_is_what_has_ended_the_service() -> None:
    clock = SimulatedClock()
    adapter = RecordingAdapter(clock)
    adapter.poll_failure = ProviderError("the disk is gone")
    adapter.recovery_failure = ProviderError("the adapter has no connection")
    assert serve(clock, adapter, 60) == "the disk is gone"
    assert adapter.recoveries == []
