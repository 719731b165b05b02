"""The adapter as a service: polls until it is told to stop.

A poll claims and waits for no batch. Batches run side by side, and each is settled when it has ended.

``PollFrequency`` counts from the end of a poll to the start of the next. While batches run, the end of a poll
is the end of its claims. Otherwise the end of a poll is the end of the last batch. A poll that
``PollFrequency`` begins takes nothing from a destination with unsettled events. All waiting is by the
monotonic clock, so a change of the system's time neither delays polls nor hurries them. Only the daily window
of PollStartTime and PollEndTime goes by local time.

With ``wake``, ``PollFrequency`` is the longest wait: a new message begins a poll. A poll may take all that
``PollQuantity`` allows of a destination. Then the next poll follows as soon as that destination may be polled
again, and as soon as the ``rate`` of the input allows. The next poll always waits after a failed poll, and
after a message went back to its queue. The obstacle would still be there.

With a cron as ``PollFrequency`` polls begin at its times, and go on while more waits. Between its times only
events that come again later are taken.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from connector.cron import Cron
from connector.errors import ConnectorError
from connector.events.cycle_report import CycleReport
from connector.events.summary import Summary
from connector.service.adapter import Adapter
from connector.service.clock import Clock, SystemClock
from connector.service.poll_window import CronWindow, PollWindow, Window
from connector.status import ReturnCode

_log = logging.getLogger("connector.service")

_MINUTE: Final = 60.0
_TICK: Final = 1.0
"""Seconds that the loop waits at most, so that it notes what has changed, and shows that it turns."""
_WINDOW_CHECK: Final = 30.0
"""Seconds until a closed poll window is checked again, because local time may have been set."""
_CONTROL: Final = 1.0
"""Seconds between two looks at what operators have told the application."""
_AGAIN: Final = 0.1
"""Shortest seconds between two looks for events that come again, between the times of a cron."""
_BURST: Final = 0.001
"""Seconds between the first new message and the poll, so that messages of a burst share a job."""


class Service:
    """Polls until stopped.

    Args:
        adapter: started. Without InputDestination there is nothing to poll, and other threads make its
            requests.
        clock: of the service. None = the clocks of this machine.
    """

    def __init__(self, adapter: Adapter, clock: Clock | None = None) -> None:
        self._adapter = adapter
        self._clock = clock if clock is not None else SystemClock()
        self._cron: CronWindow | None = None
        self._take_settings()
        self._failure: str | None = None
        self._is_closed = False

    def _take_settings(self) -> None:
        settings = self._adapter.configuration.connector
        frequency = settings.poll_frequency
        self._polls = frequency is not None
        self._wake = settings.wake
        if isinstance(frequency, Cron):
            self._pause = _AGAIN
            if self._cron is None or self._cron.cron != frequency:
                self._cron = CronWindow(frequency, self._clock.local())
        else:
            self._pause, self._cron = (frequency or 0) / 1000, None
        self._window: Window = self._cron or PollWindow(settings.poll_start_time, settings.poll_end_time)

    def run(self) -> str | None:
        """Polls in the calling thread until :meth:`stop`, or until the adapter cannot go on.

        Returns:
            why the adapter cannot go on. None after a stop.
        """
        self._adapter.start_timers()
        if not self._adapter.has_inputs:
            self._adapter.wait_to_stop(None)
            return None
        poll_at = self._clock.monotonic()
        counted = _Minutes(self._adapter.summary, poll_at)
        recover_at = poll_at + self._adapter.recovery_interval
        look_at = poll_at
        listens = ahead = False
        while self._failure is None and not self._adapter.stopping:
            now = self._clock.monotonic()
            counted.look(now)
            if now >= look_at:
                look_at = now + _CONTROL
                if self._work(self._adapter.look).more:
                    self._take_settings()
                    poll_at = now
            if self._polls and now >= poll_at:
                listens, ahead, pause = self._poll_if_open(listens=listens, ahead=ahead)
                poll_at = self._clock.monotonic() + pause
            elif now >= recover_at:
                listens = _is_good(self._work(lambda: self._adapter.serve(polls=False))) and listens
                recover_at = self._clock.monotonic() + self._adapter.recovery_interval
            else:
                due = min(recover_at, look_at, poll_at if self._polls else math.inf)
                wakes = listens and self._cron is None
                if self._adapter.wait(min(due - now, _TICK), listens=wakes):
                    self._adapter.wait_to_stop(_BURST)
                    poll_at, ahead = self._clock.monotonic(), True
            report = self._work(self._adapter.settle_ended)
            more_in = 0.0 if report.more else report.more_in
            if listens and more_in is not None and _is_good(report):
                poll_at, ahead = min(poll_at, self._clock.monotonic() + more_in), True
            elif not _is_good(report) or (report.idle and not ahead):
                listens = listens and _is_good(report)
                ahead = ahead and listens
                poll_at = self._clock.monotonic() + self._pause
        self._work(self._adapter.finish)
        return self._failure

    def stop(self) -> None:
        """Lets the running poll finish, and begins no other. For any thread or signal handler."""
        self._adapter.request_stop()

    def _poll_if_open(self, *, listens: bool, ahead: bool) -> tuple[bool, bool, float]:
        """Polls, if the window is open. Between the times of a cron takes what comes again.

        Returns:
            ``listens`` and ``ahead`` of the next poll, and the seconds until then.
        """
        closed = 0.0 if ahead and self._cron is not None else self._seconds_until_open()
        if closed and self._cron is not None:
            return listens, ahead, min(closed, self._take_again())
        if closed:
            return False, ahead, min(closed, _WINDOW_CHECK)
        began = self._clock.local()
        report = self._work(lambda: self._adapter.serve(ahead=ahead))
        listens = self._wake and _is_good(report)
        ahead = listens and report.more
        if self._cron is not None and report.provider_failed:
            return listens, ahead, _WINDOW_CHECK
        if self._cron is not None:
            self._cron.close(began)
        return listens, ahead, 0.0 if ahead else self._pause

    def _take_again(self) -> float:
        """Takes the events that come again later and are due. Returns the seconds until the next look."""
        report = self._work(lambda: self._adapter.serve(again=True))
        if not _is_good(report):
            return _WINDOW_CHECK
        return _AGAIN if report.claimed else min(max(self._adapter.due_in(), _AGAIN), _WINDOW_CHECK)

    def _seconds_until_open(self) -> float:
        """Returns the seconds until the window opens, or 0 while it is open. Logs a closed window."""
        now = self._clock.local()
        opens = self._window.opens_at(now)
        if opens is None:
            self._is_closed = self._cron is not None  # which is named once
            return 0.0
        if not self._is_closed:
            fields = {"opens": opens.isoformat()}
            if self._cron is None:
                _log.info("polls wait for the daily window", extra=fields)
            else:
                _log.info("polls wait for the next time of the cron", extra=fields)
            self._is_closed = True
        return max(0.0, opens.timestamp() - now.timestamp())

    def _work(self, work: Callable[[], CycleReport]) -> CycleReport:
        """Does a piece of work. Notes an error after which the service cannot go on."""
        try:
            return work()
        except ConnectorError as error:
            self._failure = self._failure or str(error)
        except Exception as error:
            _log.exception("the service failed with an unexpected exception")
            self._failure = self._failure or f"{type(error).__name__}: {error}"
        return CycleReport(ReturnCode.FAIL, reason=self._failure or "")


def _is_good(report: CycleReport) -> bool:
    """Whether nothing has failed or gone back to its queue."""
    return report.code is ReturnCode.SUCCEED and not report.returned


class _Minutes:
    """Logs the counts of each minute. Logs nothing for a minute without events.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, summary: Summary, now: float) -> None:
        self._summary = summary
        self._since = now
        self._before = summary.total.as_dict()

    def look(self, now: float) -> None:
        """Logs the last minute if that minute is over."""
        if now - self._since < _MINUTE:
            return
        counts = self._summary.total.as_dict()
        new = {key: number - self._before[key] for key, number in counts.items()}
        if any(new.values()):
            _log.info("summary", extra={**new, "seconds": round(now - self._since, 3)})
        self._since, self._before = now, counts
