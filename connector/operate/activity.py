"""What one instance has done since its start: counts, counts by minute, durations, and tracebacks."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Any, Final, NamedTuple

from connector.status import OutcomeKind

_OF_TASKS: Final = ("conversions", "deliveries", "requests", "tracebacks", "failures")
WINDOW: Final = 5
"""Minutes that count as recent."""
BOUNDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Seconds: the upper bounds of the buckets of durations. One more bucket has no bound."""
_FIRST_BOUND: Final = BOUNDS[0]
_MINUTE: Final = 60
STEP: Final = 120
"""Seconds of a bar in the chart of an input."""
STEPS: Final = 30
"""Bars of a chart: one hour."""
_LONGEST_REASON: Final = 300
_MOST_TRACEBACKS: Final = 100
_MOST_LABELS: Final = 1000
"""Labels of durations that are kept apart. Further ones count together, under an empty label."""


_NO_TIMES: Final = [0.0] * (len(BOUNDS) + 2)


class Durations:
    """Durations in buckets, by label. For one thread at a time."""

    def __init__(self) -> None:
        self._rows: dict[str, list[float]] = {}

    def add(self, label: str, seconds: float, number: int = 1) -> None:
        """Adds ``number`` durations of ``seconds`` each."""
        row = self._rows.get(label)
        if row is None:
            row = self._rows.setdefault(label if len(self._rows) < _MOST_LABELS else "", _NO_TIMES[:])
        row[0] += seconds * number
        row[1 if seconds <= _FIRST_BOUND else bisect_left(BOUNDS, seconds) + 1] += number

    def merge(self, rows: Mapping[str, Sequence[float]]) -> None:
        """Adds the durations that another process has taken with :meth:`take`."""
        for label, row in rows.items():
            mine = self._rows.get(label)
            if mine is None:
                mine = self._rows.setdefault(label if len(self._rows) < _MOST_LABELS else "", _NO_TIMES[:])
            mine[:] = map(add, mine, row)

    def take(self) -> dict[str, list[float]]:
        """Returns the durations by label, and forgets them: the sum, then the number in each bucket."""
        rows, self._rows = self._rows, {}
        return rows

    def rows(self) -> dict[str, list[float]]:
        """Returns the durations as :meth:`take` does, and keeps them."""
        return {label: list(row) for label, row in self._rows.copy().items()}


class Tracebacks:
    """The last traceback of each subscription and place. For one thread at a time."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}

    def add(self, subscription: str, place: str, text: str) -> None:
        """Keeps a traceback.

        Args:
            subscription: that has failed. Empty = a data handler.
            place: ``FILE:LINE`` of user code.
        """
        self.merge({f"{subscription} {place}": text})

    def merge(self, rows: Mapping[str, str]) -> None:
        """Adds the tracebacks that another process has taken with :meth:`take`."""
        for key, text in rows.items():
            self._rows.pop(key, None)
            self._rows[key] = text
            if len(self._rows) > _MOST_TRACEBACKS:
                del self._rows[next(iter(self._rows))]

    def take(self) -> dict[str, str]:
        """Returns the tracebacks by subscription and place, and forgets them."""
        rows, self._rows = self._rows, {}
        return rows

    def find(self, subscription: str, place: str) -> str:
        """Returns the last traceback of a subscription at a place. Empty = none is known."""
        return self._rows.get(f"{subscription} {place}", "")


class Failures:
    """The failures of each subscription: their number, and the last reason. For one thread at a time."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[int, str]] = {}

    def add(self, subscription: str, reason: str, number: int = 1) -> None:
        """Adds failures.

        Args:
            reason: of the last one.
        """
        before = self._rows.get(subscription, (0, ""))[0]
        self._rows[subscription] = before + number, reason[:_LONGEST_REASON]

    def merge(self, rows: Mapping[str, Sequence[Any]]) -> None:
        """Adds the failures that another process has taken with :meth:`take`."""
        for name, (number, reason) in rows.items():
            self.add(name, reason, number)

    def take(self) -> dict[str, tuple[int, str]]:
        """Returns number and last reason by subscription, and forgets them."""
        rows, self._rows = self._rows, {}
        return rows


class Calls(NamedTuple):
    """What a subscription has done in the last minutes. Times are seconds since 1970.

    Args:
        minutes: the number of each minute since 1970, its deliveries, and those that have failed.
        last_success: the end of the last call that has not failed. None = none is known.
        last_failure: the last failure, with its reason. None = none is known.
    """

    minutes: list[list[int]]
    last_success: float | None = None
    last_failure: float | None = None
    reason: str = ""


def cumulative(row: Sequence[float]) -> list[tuple[str, float]]:
    """Returns the buckets of a row as Prometheus has them: each counts the shorter durations, too."""
    bounds = [*map(str, BOUNDS), "+Inf"]
    return list(zip(bounds, accumulate(row[1:]), strict=True))


class Minute(NamedTuple):
    """The counts of one minute.

    Args:
        number: of the minute since 1970.
        published, failed: events with these outcomes.
        workers_died: worker processes that ended before their answer.
    """

    number: int
    published: int = 0
    failed: int = 0
    workers_died: int = 0


class Activity:
    """The counts of one instance, over all its connections. For any thread.

    The counts of the instance's workers arrive with the answers of their tasks. So each event and each
    request counts once.

    Args:
        clock: returns seconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._minutes: dict[str, list[Minute]] = {}
        """By input. Worker processes belong to none, under an empty name."""
        self.events: dict[tuple[str, str, str], int] = {}
        """Settled events by input, outcome and kind of the reason."""
        self._steps: dict[str, list[list[int]]] = {}
        """By input: the number of a step since 1970, published and failed events. One hour."""
        self.last_failures: dict[str, dict[str, Any]] = {}
        """By input."""
        self.batches = self.jobs = self.workers_died = self.takeovers = self.recoveries = 0
        self.job_seconds = self.spark_seconds = 0.0
        """Seconds of all jobs, and the part in which no task of the job worked."""
        self.event_seconds, self.conversions = Durations(), Durations()
        self.deliveries, self.requests = Durations(), Durations()
        """By object, by subscription, and by object and status."""
        self.tracebacks, self.failures = Tracebacks(), Failures()
        self._calls: dict[str, Calls] = {}

    def count_outcome(
        self,
        destination: str,
        outcome: str,
        number: int,
        kind: str = "",
        reason: str | None = None,
        place: str = "",
    ) -> None:
        """Counts settled events with equal outcomes."""
        with self._lock:
            key = destination, str(outcome), kind
            self.events[key] = self.events.get(key, 0) + number
            if outcome in (OutcomeKind.PUBLISHED, OutcomeKind.FAILED):
                self._count_step(destination, number, is_failure=outcome == OutcomeKind.FAILED)
            if outcome == OutcomeKind.PUBLISHED:
                self._count_minute(destination, published=number)
            elif outcome == OutcomeKind.FAILED:
                self._count_minute(destination, failed=number)
                self.last_failures[destination] = {
                    "time": round(self._clock(), 3),
                    "destination": destination,
                    "kind": kind,
                    "place": place,
                    "reason": (reason or "")[:_LONGEST_REASON],
                }

    def count_job(self, seconds: float, task_seconds: float, workers_died: int) -> None:
        """Counts a job of Spark.

        Args:
            task_seconds: of its longest task.
            workers_died: worker processes that ended before their answer.
        """
        with self._lock:
            self.jobs += 1
            self.job_seconds += seconds
            self.spark_seconds += max(0.0, seconds - task_seconds)
            if workers_died:
                self.workers_died += workers_died
                self._count_minute("", workers_died=workers_died)

    def count_batch(self, seconds: float, events: int) -> None:
        """Counts a settled batch, from its start to its settlement."""
        with self._lock:
            self.batches += 1
            if events:
                self.event_seconds.add("", seconds, events)

    def merge(self, rows_by_name: Mapping[str, Mapping[str, Any]]) -> None:
        """Adds the durations, tracebacks and failures of a task, as :meth:`take` returns them."""
        with self._lock:
            for name, rows in rows_by_name.items():
                getattr(self, name).merge(rows)
            self._note_calls(rows_by_name.get("deliveries", {}), self.failures.take())

    def _note_calls(
        self, deliveries: Mapping[str, Sequence[float]], failures: Mapping[str, tuple[int, str]]
    ) -> None:
        now, minute = round(self._clock(), 3), self._minute()
        for name in deliveries.keys() | failures.keys():
            failed, reason = failures.get(name, (0, ""))
            # the preparing of a message is no call, and has no duration
            number = max(int(sum(deliveries.get(name, (0,))[1:])), failed)
            known = self._calls.get(name) or Calls([])
            minutes = [one for one in known.minutes if one[0] > minute - WINDOW]
            if not minutes or minutes[-1][0] != minute:
                minutes.append([minute, 0, 0])
            minutes[-1][1] += number
            minutes[-1][2] += failed
            if number > failed:
                known = known._replace(last_success=now)
            if failed:
                known = known._replace(last_failure=now, reason=reason)
            self._calls[name] = known._replace(minutes=minutes)

    def calls(self) -> dict[str, list[Any]]:
        """Returns the :class:`Calls` of each subscription as JSON has them."""
        with self._lock:
            return {name: list(one) for name, one in self._calls.items()}

    def add_request(self, object_name: str, status: str, seconds: float) -> None:
        """Adds a request of this process."""
        with self._lock:
            self.requests.add(f"{object_name} {status}", seconds)

    def take(self) -> dict[str, dict[str, Any]]:
        """Returns the durations and tracebacks of a task for :meth:`merge`, and forgets them."""
        found: dict[str, dict[str, Any]] = {}
        with self._lock:
            for name in _OF_TASKS:
                if (kept := getattr(self, name))._rows:
                    found[name] = kept.take()
        return found

    @property
    def last_failure(self) -> dict[str, Any] | None:
        """The last failed event of all inputs. None = none has failed."""
        with self._lock:
            return max(self.last_failures.values(), key=lambda one: one["time"], default=None)

    def minutes(self) -> dict[str, list[list[int]]]:
        """Returns the recent minutes with a count by input, and those of no input under an empty name."""
        oldest = self._minute() - WINDOW
        with self._lock:
            found = {
                name: [list(one) for one in rows if one.number >= oldest]
                for name, rows in self._minutes.items()
            }
        return {name: rows for name, rows in found.items() if rows}

    def note(self) -> dict[str, Any]:
        """Returns what other processes, and the next process of this instance, are told, for JSON."""
        return {
            "minutes": self.minutes(),
            "steps": self.steps(),
            "calls": self.calls(),
            "last_failures": dict(self.last_failures),
        }

    def restore(self, note: Mapping[str, Any]) -> None:
        """Takes over what the last process of this instance has noted. Totals begin anew."""
        if not isinstance(note.get("minutes"), dict):
            return  # that of an earlier version
        with self._lock:
            self._minutes = {name: [Minute(*one) for one in rows] for name, rows in note["minutes"].items()}
            self._steps = {name: [list(one) for one in rows] for name, rows in note["steps"].items()}
            self._calls = {name: Calls(*one) for name, one in note["calls"].items()}
            self.last_failures = dict(note["last_failures"])

    def steps(self) -> dict[str, list[list[int]]]:
        """Returns the counts of the last hour by input: number of the step, published and failed events."""
        with self._lock:
            return {name: [list(one) for one in rows] for name, rows in self._steps.items()}

    def _count_step(self, destination: str, number: int, *, is_failure: bool) -> None:
        rows, step = self._steps.setdefault(destination, []), int(self._clock() // STEP)
        if not rows or rows[-1][0] != step:
            rows.append([step, 0, 0])
            del rows[:-STEPS]
        rows[-1][1 + is_failure] += number

    def _minute(self) -> int:
        return int(self._clock() // _MINUTE)

    def _count_minute(
        self, destination: str, published: int = 0, failed: int = 0, workers_died: int = 0
    ) -> None:
        number = int(self._clock() // _MINUTE)
        rows = self._minutes.get(destination)
        if rows is None:
            rows = self._minutes[destination] = []
        if not rows or rows[-1].number != number:
            rows.append(Minute(number))
            del rows[: -WINDOW - 1]
        last = rows[-1]
        rows[-1] = Minute(
            number, last.published + published, last.failed + failed, last.workers_died + workers_died
        )


def minutes_of(note: Mapping[str, Any], now: float) -> dict[str, list[list[int]]]:
    """Returns the recent minutes in the note of an instance, by input."""
    oldest, minutes = int(now // _MINUTE) - WINDOW, note.get("minutes")
    if not isinstance(minutes, dict):  # an earlier version
        return {}
    return {name: [one for one in rows if one[0] >= oldest] for name, rows in minutes.items()}


def total(minutes: Iterable[Sequence[int]]) -> Minute:
    """Returns the sum of minutes. Its number is that of the first one with a failed event, or 0."""
    rows = list(minutes)
    first = min((one[0] for one in rows if one[2]), default=0)
    return Minute(first, *(sum(one[column] for one in rows) for column in (1, 2, 3)))


def last_hour(notes: Iterable[Sequence[Sequence[int]]], now: float) -> list[tuple[int, int]]:
    """Returns published and failed events of each step of the last hour, the oldest first.

    Args:
        notes: the counts of one input, one sequence for each instance (:meth:`Activity.steps`).
        now: seconds since 1970.
    """
    last = int(now // STEP)
    found = [[0, 0] for _ in range(STEPS)]
    for step, published, failed in (row for rows in notes for row in rows):
        place = step - last + STEPS - 1
        if 0 <= place < STEPS:
            found[place][0] += published
            found[place][1] += failed
    return [(published, failed) for published, failed in found]
