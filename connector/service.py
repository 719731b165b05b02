"""The adapter as a service: polls until it is told to stop.

A poll claims and waits for no batch. Batches run side by side, and each is settled when it has ended.

``PollFrequency`` counts from the end of a poll to the start of the next. While batches run, that is the end
of the claims. Once all have ended, it is the end of the last batch. A poll that ``PollFrequency`` begins
takes nothing from a destination of which events are not settled yet. All waiting is by the monotonic clock,
so a change of the system's time neither delays polls nor hurries them. Only the daily window of PollStartTime
and PollEndTime goes by local time.

With ``wake``, ``PollFrequency`` is the longest wait: a message that comes begins a poll. After a poll that
took all it may take of a destination, the next one follows as soon as that may be polled again. After a poll
that did not succeed, or something that went back to its queue, the next poll always waits: what stood in the
way has hardly gone.
"""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from apscheduler.triggers.cron import CronTrigger
from tzlocal import get_localzone

from connector.adapter import RECOVERY_INTERVAL, Adapter
from connector.errors import ConnectorError
from connector.events.report import CycleReport
from connector.events.summary import Summary
from connector.status import ReturnCode

_log = logging.getLogger("connector.service")

_MINUTE: Final = 60.0
_WINDOW_CHECK: Final = 30.0
"""Seconds after which a closed poll window is looked at again: local time may have been set."""
_BURST: Final = 0.001
"""Seconds between the first message that comes and the poll: those that come with it are in the same job."""


class Clock(Protocol):
    """The time that a service goes by."""

    def monotonic(self) -> float:
        """Seconds that only go forward."""

    def local(self) -> datetime.datetime:
        """Local time, with its zone."""


class SystemClock:
    """The clocks of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def local(self) -> datetime.datetime:
        return datetime.datetime.now(get_localzone())


class PollWindow:
    """The daily time in which polls begin, by local time. It may cross midnight.

    Args:
        start, end: PollStartTime and PollEndTime; both None = always.
    """

    def __init__(self, start: datetime.time | None, end: datetime.time | None) -> None:
        self._start = start
        self._end = end

    def opens_in(self, now: datetime.datetime) -> float:
        """Seconds until a poll may begin; 0 while the window is open.

        Args:
            now: local time, with its zone.
        """
        if self._start is None or self._end is None or self._start == self._end:
            return 0.0
        moment = now.time()
        if self._start < self._end:
            is_open = self._start <= moment < self._end
        else:
            is_open = moment >= self._start or moment < self._end
        if is_open:
            return 0.0
        # The trigger knows the days on which the clocks are changed.
        daily = CronTrigger(
            hour=self._start.hour, minute=self._start.minute, second=self._start.second, timezone=now.tzinfo
        )
        opens: datetime.datetime = daily.get_next_fire_time(None, now)
        return max(0.0, opens.timestamp() - now.timestamp())


class Service:
    """Polls until stopped.

    Args:
        adapter: started. One without InputDestination has nothing to poll: its requests are made by others.
        clock: what it goes by.
    """

    def __init__(self, adapter: Adapter, clock: Clock | None = None) -> None:
        settings = adapter.configuration.connector
        self._adapter = adapter
        self._clock = clock if clock is not None else SystemClock()
        self._frequency = settings.poll_frequency
        self._wake = settings.wake
        self._window = PollWindow(settings.poll_start_time, settings.poll_end_time)
        self._failure: str | None = None

    def run(self) -> str | None:
        """Polls in the calling thread until :meth:`stop`, or until the adapter cannot go on.

        Returns:
            why it cannot go on; None where it was stopped.
        """
        if not self._adapter.has_inputs:
            self._adapter.wait_to_stop(None)
            return None
        poll_at = self._clock.monotonic()
        counted = _Minutes(self._adapter.summary, poll_at)
        recover_at = poll_at + RECOVERY_INTERVAL
        listens = ahead = False
        while self._failure is None and not self._adapter.stopping:
            now = self._clock.monotonic()
            counted.look(now)
            if self._frequency is not None and now >= poll_at:
                closed = self._window.opens_in(self._clock.local())
                if closed:
                    pause, listens = min(closed, _WINDOW_CHECK), False
                else:
                    report = self._work(lambda: self._adapter.serve_poll(ahead=ahead))  # noqa: B023, called at once
                    listens = self._wake and _is_good(report)
                    ahead = listens and report.more
                    pause = 0.0 if ahead else self._frequency / 1000
                poll_at = self._clock.monotonic() + pause
            elif now >= recover_at:
                listens = _is_good(self._work(self._adapter.serve_recovery)) and listens
                recover_at = self._clock.monotonic() + RECOVERY_INTERVAL
            else:
                due = recover_at if self._frequency is None else min(poll_at, recover_at)
                if self._adapter.wait(due - now, listens=listens):
                    self._adapter.wait_to_stop(_BURST)
                    poll_at, ahead = self._clock.monotonic(), True
            report = self._work(self._adapter.serve_ended)
            if listens and report.more and _is_good(report):
                poll_at, ahead = self._clock.monotonic(), True
            elif not _is_good(report) or (report.idle and not ahead):
                listens = listens and _is_good(report)
                ahead = ahead and listens
                poll_at = self._clock.monotonic() + (self._frequency or 0) / 1000
        self._work(self._adapter.finish)
        return self._failure

    def stop(self) -> None:
        """Lets the poll that runs finish, and begins no other. From any thread or signal handler."""
        self._adapter.request_stop()

    def _work(self, work: Callable[[], CycleReport]) -> CycleReport:
        """Does a piece of work; notes where the service cannot go on."""
        try:
            return work()
        except ConnectorError as error:
            self._failure = self._failure or str(error)
        except Exception as error:
            _log.exception("the service failed in a way that it should not")
            self._failure = self._failure or f"{type(error).__name__}: {error}"
        return CycleReport(ReturnCode.FAIL, reason=self._failure or "")


def _is_good(report: CycleReport) -> bool:
    """Whether nothing has failed or gone back to its queue."""
    return report.code is ReturnCode.SUCCEED and not report.returned


class _Minutes:
    """Logs what each minute has brought; nothing where that is nothing.

    Args:
        summary: of the adapter.
        now: monotonic seconds.
    """

    def __init__(self, summary: Summary, now: float) -> None:
        self._summary = summary
        self._since = now
        self._before = summary.total.as_dict()

    def look(self, now: float) -> None:
        """Logs the minute that has passed, if one has."""
        if now - self._since < _MINUTE:
            return
        counts = self._summary.total.as_dict()
        new = {key: number - self._before[key] for key, number in counts.items()}
        if any(new.values()):
            _log.info("summary", extra={**new, "seconds": round(now - self._since, 3)})
        self._since, self._before = now, counts
