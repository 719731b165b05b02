"""Sends the messages of timers when their times come, each once over all instances and restarts.

Each instance sends each due time. The key of the message is the name of the timer and the due time, so the
message is sent once. Afterwards the instance notes how far the timer is. A crash between the two leaves the
due time without a note, and the next attempt finds the key.

A due time whose message cannot be sent now stays due. Times that have passed while no instance ran are
*missed*, and ``misfire`` decides. So are times that passed while this process did not run, such as during the
sleep of a laptop.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from connector import faults
from connector.config.timer_model import TimerEntry
from connector.core.once_sender import OnceSender
from connector.errors import ConnectorError
from connector.messaging.history import HistoryRow
from connector.messaging.once import SentOnce
from connector.messaging.state_store import ControlRecord, TimerNote
from connector.service.clock import Clock
from connector.service.timer_messages import Timer
from connector.service.timer_notes import forget_others
from connector.sinks.sending import SentMessage
from connector.text.iso_time import iso_time
from connector.tracebacks import error_text

_log: Final = logging.getLogger("connector.timers")

SENT: Final = "sent"
"""What the history says of the message of a timer."""
_TICK: Final = 1.0
"""Seconds between two looks at the clock at most, because its time may be set."""
_GAP: Final = 60_000
"""Milliseconds between two looks from which on this process counts as not running meanwhile."""
_AHEAD: Final = 60_000
"""Milliseconds that the clocks of two machines may differ."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds before another attempt. Each pause is twice as long."""


def key_of(name: str, due: int) -> str:
    """Returns the key of the message of a timer for a due time."""
    return f"timer/{name}/{due}"


class _Run:
    """A timer at work.

    Args:
        timer: with its times.
        since: when this instance began to watch it. Earlier times are missed.
    """

    def __init__(self, timer: Timer, since: int) -> None:
        self.timer = timer
        self.since = since
        self.until: int | None = None
        """Every due time up to here is dealt with. None = the note was not read yet."""
        self.next_due: int | None = None
        self.before: int | None = None
        """``until`` before this process stood still."""
        self.failures = 0
        self.retry_at = 0.0

    @property
    def name(self) -> str:
        return self.timer.entry.name

    def go_on(self, until: int) -> None:
        """Notes that every due time up to ``until`` is dealt with."""
        self.until = until
        self.next_due = self.timer.due.next_after(until)

    def wake(self, now: int) -> None:
        """Makes the times missed that have passed while this process did not run."""
        self.before = self.until if self.until is not None else self.before
        self.until = self.next_due = None
        self.since = now

    def seconds_left(self, now: int, monotonic: float) -> float:
        """Returns the seconds until the next look."""
        if self.next_due is None or monotonic < self.retry_at:
            return max(0.0, self.retry_at - monotonic)
        return max(0.0, (self.next_due - now) / 1000)


class Timers:
    """The timers of one instance. :meth:`take` is for any thread, all other methods for one thread.

    Args:
        record: holds how far the timers are, for all instances.
        append: appends a row to the history. Raises nothing.
        instance: the configured name of the instance, for the history.
        is_stopping: whether no further message is sent.
    """

    def __init__(
        self,
        sender: OnceSender,
        record: ControlRecord,
        clock: Clock,
        append: Callable[[HistoryRow], None],
        instance: str = "",
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._sender = sender
        self._record = record
        self._clock = clock
        self._append = append
        self._instance = instance
        self._is_stopping = is_stopping
        self._runs: dict[str, _Run] = {}
        self._given: Sequence[Timer] | None = None
        self._has_forgotten = True
        self._seen: int | None = None

    def take(self, timers: Sequence[Timer]) -> None:
        """Uses these timers from the next look on. A timer whose times stay goes on where it is."""
        self._given = timers

    def look(self) -> float:
        """Sends what is due. Returns the seconds until the next look."""
        now = self._now()
        self._take_given(now)
        if self._seen is not None and now - self._seen > _GAP:
            for run in self._runs.values():
                run.wake(now)
        may_be_due = list(self._runs.values())
        while may_be_due:  # one message of each in turn, so that none waits for the missed times of another
            may_be_due = [run for run in may_be_due if self._go_on(run, now)]
        self._seen, monotonic = self._now(), self._clock.monotonic()
        return min([_TICK, *(run.seconds_left(self._seen, monotonic) for run in self._runs.values())])

    def _now(self) -> int:
        return round(self._clock.local().timestamp() * 1000)

    def _take_given(self, now: int) -> None:
        given, self._given = self._given, None
        if given is not None:
            runs = {}
            for timer in given:
                run = self._runs.get(timer.entry.name)
                if run is None or run.timer.entry.times != timer.entry.times:
                    run = _Run(timer, now)
                run.timer = timer
                runs[timer.entry.name] = run
            self._runs, self._has_forgotten = runs, False
        if not self._has_forgotten:
            with contextlib.suppress(ConnectorError, OSError):
                forget_others(self._record, self._runs)
                self._has_forgotten = True

    def _go_on(self, run: _Run, now: int) -> bool:
        """Sends the next message of a timer if it is due. Returns whether another one may be due."""
        if self._is_stopping() or self._clock.monotonic() < run.retry_at:
            return False
        try:
            if run.next_due is None:
                run.go_on(self._begin(run))
            due = run.next_due
            assert due is not None
            if due > now:
                return False
            self._send(run, due)
        except Exception as error:  # whatever a provider or a data handler raises, the time stays due
            self._fail(run, error)
            return False
        run.go_on(due)
        if run.failures:
            _log.info("a timer works again", extra={"timer": run.name})
            run.failures = 0
        return True

    def _begin(self, run: _Run) -> int:
        """Returns the time up to which every due time is dealt with."""
        entry = run.timer.entry
        note = self._record.read().timers.get(entry.name)
        begin = run.before
        if note is not None and note.times == entry.times:
            begin = max(note.until, note.until if begin is None else begin)
        if begin is None:
            with self._record.change() as control:
                control.timers[entry.name] = TimerNote(entry.times, run.since)
            return run.since
        if begin > run.since + _AHEAD:
            fields = {"timer": entry.name, "until": iso_time(begin / 1000)}
            _log.warning("the clock is behind the last time of a timer, which waits", extra=fields)
        missed = run.timer.due.missed(entry.misfire, begin, run.since)
        if missed.left_out is not None:
            first, last = (iso_time(one / 1000) for one in missed.left_out)
            fields = {"timer": entry.name, "misfire": entry.misfire, "first": first, "last": last}
            _log.warning("missed times of a timer have no message", extra=fields)
            self._note_missed(entry, missed.until)
        return missed.until

    def _note_missed(self, entry: TimerEntry, until: int) -> None:
        """Notes that missed times have no message, so that no later start tells them again."""
        with self._record.change() as control:
            note = control.timers.get(entry.name)
            if note is not None and note.times == entry.times and note.until < until:
                control.timers[entry.name] = replace(note, until=until)

    def _send(self, run: _Run, due: int) -> None:
        faults.point("timer.due")
        made = run.timer.message(due)
        key, keep = key_of(run.name, due), run.timer.due.keep
        answer = self._sender.send(made.destination, made.message, key=key, keep=keep)
        faults.point("timer.sent")
        if answer.is_new:
            self._tell(run, due, made, answer)
        self._note(run, due, answer.message_id)
        faults.point("timer.noted")

    def _tell(self, run: _Run, due: int, made: SentMessage, answer: SentOnce) -> None:
        """Writes the log and the history of a message."""
        now = self._now()
        fields: dict[str, Any] = {"timer": run.name, "destination": str(made.destination)}
        if now - due > _AHEAD:
            fields["late"] = (now - due) // 1000
        _log.info("a timer has sent its message", extra={**fields, "message_id": answer.message_id})
        self._append(
            HistoryRow(
                time=now / 1000,
                what=SENT,
                ids=[answer.message_id],
                instance=self._instance,
                destination=str(made.destination),
                object="" if made.object is None else made.object.type,
                verb="" if made.object is None else made.object.verb or "",
                by=f"timer {run.name}",
            )
        )

    def _note(self, run: _Run, due: int, message_id: str) -> None:
        """Notes a message for all instances, unless another instance has noted it."""
        times = run.timer.entry.times
        found = self._record.read().timers.get(run.name)
        if found is not None and found.times == times and found.until >= due and not found.error:
            return
        with self._record.change() as control:
            before = control.timers.get(run.name)
            if before is None or before.times != times or before.until < due:
                control.timers[run.name] = TimerNote(times, due, due, message_id)
            else:
                control.timers[run.name] = replace(before, error="")

    def _fail(self, run: _Run, error: Exception) -> None:
        """Lets a timer wait before another attempt. Says so once, and where all instances see it."""
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(run.failures, 10))
        run.failures += 1
        run.retry_at = self._clock.monotonic() + pause
        if run.failures > 1:
            return
        is_known = isinstance(error, ConnectorError | OSError | ValueError)
        reason = str(error) if isinstance(error, ConnectorError) else error_text(error)
        fields = {"timer": run.name, "destination": str(run.timer.entry.to), "reason": reason}
        text = "the message of a timer cannot be sent now, and is tried again"
        _log.warning(text, extra=fields, exc_info=None if is_known else error)
        with contextlib.suppress(ConnectorError, OSError), self._record.change() as control:
            note = control.timers.get(run.name)
            if note is not None and note.times == run.timer.entry.times:
                control.timers[run.name] = replace(note, error=reason)
