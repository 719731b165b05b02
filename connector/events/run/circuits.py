"""The circuit breaker: a subscription that has failed in a row for long enough (``rest_after``) rests.

Only failures count that ``retry_later`` names. The circuit of a resting subscription is open: its events come
again later, without a call and without a count. Every ``first`` seconds the circuit is half-open, and one of
them is tried. A call with any other end closes the circuit. The driver of an instance keeps all of this in
memory.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from connector.sinks.retry_later import RestAfter, RetryLater
from connector.sinks.subscriptions import Subscription

_log: Final = logging.getLogger("connector.events")


class CircuitState(NamedTuple):
    """What a task is told of a subscription that has failed.

    Args:
        failures: in a row until now.
        delay: seconds until an event comes again that is not tried.
        is_half_open: whether the task may try one event although the subscription rests.
        rests: whether it rests, by the number of its failures or by their time.
    """

    failures: int
    delay: float
    is_half_open: bool = False
    rests: bool = False


class CallCounts(NamedTuple):
    """What a task tells of the calls of a subscription.

    Args:
        failures: in a row at the end, those before the task left out.
        has_other: whether a call has ended otherwise.
    """

    number: int = 0
    failures: int = 0
    has_other: bool = False
    reason: str = ""


def _rules(subscriptions: Iterable[Subscription]) -> dict[str, tuple[RestAfter, RetryLater]]:
    return {
        one.name: (one.rest_after, one.retry_later) for one in subscriptions if one.retry_later is not None
    }


class DeliveryGate:
    """Decides in a task whether a subscription gets an event now, or the event comes again later.

    A subscription that is paused gets none. Of one that rests, at most one event is tried. For one thread.
    """

    def __init__(self, subscriptions: Iterable[Subscription]) -> None:
        self._rules = _rules(subscriptions)
        self._told: dict[str, CircuitState] = {}
        self._paused: Mapping[str, float] = {}
        self.calls: dict[str, CallCounts] = {}
        """The calls of the subscriptions that have failed, in this assignment or before."""
        self.is_open = True
        """Whether every subscription gets its events. Then nobody has to ask."""

    def begin(self, told: Mapping[str, CircuitState], paused: Mapping[str, float]) -> None:
        """Begins an assignment.

        Args:
            told: the subscriptions that have failed, by name.
            paused: the paused ones, by name, each with the seconds until its events come again.
        """
        self._told, self.calls, self._paused = dict(told), {}, paused
        self.is_open = not (told or paused)

    def delay(self, name: str, *, is_called: bool) -> float | None:
        """Returns the seconds until an event comes again without a delivery. None = it is delivered now.

        Args:
            is_called: whether its sink is called. Only such a subscription rests.
        """
        paused = self._paused.get(name)
        if paused is not None or not is_called or name not in self._rules:
            return paused
        rest_after, retry_later = self._rules[name]
        told = self._told.get(name)
        rests = told is not None and told.rests and not self.calls.get(name, CallCounts()).has_other
        if not rests and self._failures(name) < rest_after.failures:
            return None
        if told is not None and told.is_half_open:
            self._told[name] = told._replace(is_half_open=False)
            return None
        return retry_later.first if told is None else told.delay

    def _failures(self, name: str) -> int:
        calls, told = self.calls.get(name, CallCounts()), self._told.get(name)
        return calls.failures + (0 if calls.has_other or told is None else told.failures)

    def note(self, name: str, failure: str | None) -> None:
        """Notes the end of a call.

        Args:
            failure: the reason of a failure that ``retry_later`` names. None = any other end.
        """
        if name not in self._rules:
            return
        calls = self.calls.get(name, CallCounts())
        if failure is not None:
            self.is_open = False
            self.calls[name] = calls._replace(
                number=calls.number + 1, failures=calls.failures + 1, reason=failure
            )
        elif calls.failures or name in self._told:
            self.calls[name] = CallCounts(calls.number + 1, has_other=True)


@dataclass(slots=True)
class _Circuit:
    """The failures of a subscription in a circuit, and its circuit.

    Args:
        failures: their number.
        failed_at: the first of them, in monotonic seconds.
        failing_since: the same in seconds since 1970.
        since: when the circuit was opened, in monotonic seconds. None = it is closed.
        began: the same in seconds since 1970.
        tried: the last try, in monotonic seconds.
        is_half_open: whether a task may try one event now.
    """

    failed_at: float
    failing_since: float
    failures: int = 0
    reason: str = ""
    since: float | None = None
    began: float = 0.0
    tried: float = 0.0
    is_half_open: bool = False


class Circuits:
    """The circuits of the subscriptions, over all connections of an instance. For any thread.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(
        self, subscriptions: Iterable[Subscription], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rules = _rules(subscriptions)
        self._clock = clock
        self._lock = threading.Lock()
        self._found: dict[str, _Circuit] = {}
        """The circuits of the subscriptions whose last call has failed."""
        self.has_failures = False
        """Whether a subscription has failed. Otherwise a task has to be told nothing."""
        self._turn = 0

    def states(self, tasks: int) -> Sequence[Mapping[str, CircuitState]]:
        """Returns what each of the tasks of a batch is told. Each has to be given back to :meth:`note`."""
        told: list[dict[str, CircuitState]] = [{} for _ in range(tasks)]
        if not self._found:
            return told
        with self._lock:
            now = self._clock()
            self._open_due()
            for name, circuit in self._found.items():
                _, rules = self._rules[name]
                rested = 0.0 if circuit.since is None else now - circuit.since
                delay = max(rules.first, min(rules.most, rested))
                for one in told:
                    one[name] = CircuitState(circuit.failures, delay, rests=circuit.since is not None)
                is_due = circuit.since is not None and now - circuit.tried >= rules.first
                if is_due and not circuit.is_half_open:
                    self._turn += 1
                    circuit.is_half_open = True
                    one = told[self._turn % tasks]
                    one[name] = one[name]._replace(is_half_open=True)
        return told

    def note(self, told: Mapping[str, CircuitState], calls: Mapping[str, CallCounts]) -> None:
        """Takes the answer of a task.

        Args:
            told: what the task was told.
            calls: what the task tells. Empty if its worker has ended.
        """
        if not told and not calls:
            return
        with self._lock:
            for name, state in told.items():
                if state.is_half_open and (circuit := self._found.get(name)) is not None:
                    circuit.is_half_open = False
                    circuit.tried = self._clock() if name in calls else circuit.tried
            for name, found in calls.items():
                self._count(name, found)

    def _count(self, name: str, calls: CallCounts) -> None:
        circuit = self._found.get(name)
        if circuit is None:
            circuit = self._found[name] = _Circuit(self._clock(), time.time())
        elif calls.has_other:
            circuit.failed_at, circuit.failing_since = self._clock(), time.time()
        circuit.failures = calls.failures + (0 if calls.has_other else circuit.failures)
        circuit.reason = calls.reason or circuit.reason
        is_due = self._is_due(name, circuit)
        if circuit.since is not None and not is_due:
            circuit.since = None
            _log.info("a subscription rests no more", extra={"subscription": name})
        if not circuit.failures:
            del self._found[name]
        elif is_due:
            self._open(name, circuit)
        self.has_failures = bool(self._found)

    def _is_due(self, name: str, circuit: _Circuit) -> bool:
        """Whether a subscription has failed often enough, or for long enough, to rest."""
        failures, seconds = self._rules[name][0]
        if not circuit.failures:
            return False
        is_long = seconds is not None and self._clock() - circuit.failed_at >= seconds
        return circuit.failures >= failures or is_long

    def _open(self, name: str, circuit: _Circuit) -> None:
        if circuit.since is None:
            circuit.since = circuit.tried = self._clock()
            circuit.began = time.time()
            fields = {"subscription": name, "failures": circuit.failures, "reason": circuit.reason}
            _log.warning("a subscription rests", extra=fields)

    def _open_due(self) -> None:
        """Lets subscriptions rest that have failed for long enough by now."""
        for name, circuit in self._found.items():
            if self._is_due(name, circuit):
                self._open(name, circuit)

    def end_rests(self, asked: Mapping[str, float]) -> None:
        """Lets subscriptions that rest get their events again. Their failures count anew.

        Args:
            asked: when an operator has asked for that the last time, in seconds since 1970.
        """
        if not asked or not self._found:
            return
        with self._lock:
            for name, time_asked in asked.items():
                circuit = self._found.get(name)
                if circuit is not None and circuit.since is not None and circuit.began < time_asked:
                    del self._found[name]
                    _log.info("a subscription rests no more", extra={"subscription": name})
            self.has_failures = bool(self._found)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the resting subscriptions, each with the start of its rest and the last reason."""
        with self._lock:
            self._open_due()
            return [
                {"subscription": name, "since": round(circuit.began, 3), "reason": circuit.reason}
                for name, circuit in sorted(self._found.items())
                if circuit.since is not None
            ]

    def failing(self) -> list[dict[str, Any]]:
        """Returns the subscriptions whose last call has failed and that do not rest."""
        with self._lock:
            return [
                {
                    "subscription": name,
                    "since": round(circuit.failing_since, 3),
                    "failures": circuit.failures,
                    "reason": circuit.reason,
                }
                for name, circuit in sorted(self._found.items())
                if circuit.since is None
            ]
