"""The adapter as a service: polls by the clock until it is told to stop.

``PollFrequency`` counts from the end of a poll to the start of the next. A scheduler's interval
counts from start to start, so a date is set anew after each poll. Everything that touches the
connection runs in one thread of the scheduler.
"""

from __future__ import annotations

import datetime
import logging
import threading

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.date import DateTrigger

from connector.adapter import Adapter
from connector.errors import ConnectorError
from connector.events.polling import RECOVERY_INTERVAL

_log = logging.getLogger("connector.service")

_POLL = "poll"
_RECOVERY = "recovery"


class PollWindow:
    """The daily time in which polls begin, local time; may cross midnight.

    Args:
        start, end: PollStartTime and PollEndTime; both None = always.
    """

    def __init__(self, start: datetime.time | None, end: datetime.time | None) -> None:
        self._start = start
        self._end = end

    def next(self, wanted: datetime.datetime) -> datetime.datetime:
        """The first moment from ``wanted`` on at which a poll may begin."""
        if self._start is None or self._end is None or self._start == self._end:
            return wanted
        now = wanted.time()
        if self._start < self._end:
            if self._start <= now < self._end:
                return wanted
        elif now >= self._start or now < self._end:
            return wanted
        begin = wanted.replace(
            hour=self._start.hour,
            minute=self._start.minute,
            second=self._start.second,
            microsecond=0,
        )
        return begin if begin >= wanted else begin + datetime.timedelta(days=1)


class Service:
    """Polls until stopped.

    Args:
        adapter: started. One without InputDestination has nothing to poll: its requests are made by others.
    """

    def __init__(self, adapter: Adapter) -> None:
        settings = adapter.configuration.connector
        self._adapter = adapter
        self._frequency = settings.poll_frequency
        self._window = PollWindow(settings.poll_start_time, settings.poll_end_time)
        self._done = threading.Event()
        self._failure: str | None = None
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1)},
            job_defaults={"misfire_grace_time": None, "coalesce": True},
            timezone=datetime.UTC,
        )

    def run(self) -> str | None:
        """Polls until :meth:`stop`, or until the adapter cannot go on; then returns why not."""
        logging.getLogger("apscheduler").setLevel(logging.WARNING)
        self._scheduler.start()
        try:
            if self._adapter.has_inputs:
                self._schedule(_POLL, 0.0)
                self._schedule(_RECOVERY, RECOVERY_INTERVAL)
            self._done.wait()
        finally:
            self._scheduler.shutdown(wait=True)  # a poll that runs is finished first
        return self._failure

    def stop(self) -> None:
        """Lets the poll that runs finish, and begins no other. From any thread or signal handler."""
        self._adapter.request_stop()
        self._done.set()

    def _schedule(self, what: str, seconds: float) -> None:
        """Sets the date of the next poll, or of the next look for dead instances."""
        if self._done.is_set():
            return
        when = datetime.datetime.now().astimezone() + datetime.timedelta(seconds=seconds)
        if what == _POLL:
            if self._frequency is None:
                return
            when = self._window.next(when)
        job = self._poll if what == _POLL else self._recover
        self._scheduler.add_job(job, DateTrigger(when), id=what, replace_existing=True)

    def _poll(self) -> None:
        try:
            self._adapter.serve_poll()
        except ConnectorError as error:
            self._fail(str(error))
        except Exception as error:
            _log.exception("a poll failed in a way that it should not")
            self._fail(f"{type(error).__name__}: {error}")
        else:
            self._schedule(_POLL, (self._frequency or 0) / 1000)

    def _recover(self) -> None:
        """Between polls that are far apart, dead instances are still looked for every 10 s."""
        try:
            self._adapter.serve_recovery()
        except ConnectorError as error:
            self._fail(str(error))
        except Exception as error:
            _log.exception("a recovery failed in a way that it should not")
            self._fail(f"{type(error).__name__}: {error}")
        else:
            self._schedule(_RECOVERY, RECOVERY_INTERVAL)

    def _fail(self, reason: str) -> None:
        self._failure = reason
        self._done.set()
