"""Restarts of a connection: their pauses, and which failures of a start are waited for."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import (
    CapabilityError,
    ClientIdError,
    ConnectorError,
    PipelineError,
    ProviderError,
    ProviderMisconfigured,
    SettlementError,
    SparkLost,
)
from connector.service.restarts import Restarts
from tests.tables import rows


class Trials:
    """A connection that fails some times, and the pauses between the attempts."""

    def __init__(self, *failures: BaseException, count: int | None = 3, interval: float = 0.0) -> None:
        self.failures = list(failures)
        self.attempts = 0
        self.pauses: list[float] = []
        self.stopping = False
        self.restarts = Restarts(count, interval, self.pauses.append, lambda: self.stopping)

    def connect(self) -> None:
        self.attempts += 1
        if self.failures:
            raise self.failures.pop(0)


def with_cause(error: ProviderError, cause: BaseException) -> ProviderError:
    error.__cause__ = cause
    return error


AWAY = [
    ProviderError("the broker cannot be reached"),
    SettlementError("the archive cannot be written"),
    SparkLost("Java was ended by signal 9"),
    with_cause(ProviderError("cannot use it"), OSError(errno.EIO, "no answer")),
    with_cause(ProviderError("cannot use it"), OSError(errno.ESTALE, "the server is away")),
    with_cause(ProviderError("cannot use it"), OSError(errno.ENOSPC, "no room")),
]
MISTAKES = [
    ProviderMisconfigured("the broker refuses the login"),
    PipelineError("the package pyspark is not installed"),
    with_cause(ProviderError("cannot write it"), OSError(errno.EACCES, "not allowed")),
    with_cause(ProviderError("cannot write it"), OSError(errno.EROFS, "read-only")),
    CapabilityError("this provider has no topics"),
    ClientIdError("the client id is in use"),
]


@rows("error", AWAY)
def test_a_start_waits_for_what_may_come(error: ConnectorError) -> None:
    trials = Trials(error, error)
    trials.restarts.start(trials.connect)
    assert trials.attempts == 3
    assert len(trials.pauses) == 1, "the second attempt comes at once"


@rows("error", MISTAKES)
@rows("before", [[], AWAY[:1], AWAY[:2]])
def test_a_start_does_not_wait_for_a_mistake(before: list[ConnectorError], error: ConnectorError) -> None:
    trials = Trials(*before, error)
    with pytest.raises(type(error)) as raised:
        trials.restarts.start(trials.connect)
    assert raised.value is error
    assert trials.attempts == len(before) + 1


@rows("error", [*AWAY, *MISTAKES[:4], MISTAKES[5]])
def test_a_service_that_has_worked_tries_again_in_any_case(error: ConnectorError) -> None:
    trials = Trials(error, error)
    trials.restarts.run(trials.connect, "the poll failed")
    assert trials.attempts == 3


def _start(trials: Trials) -> None:
    trials.restarts.start(trials.connect)


def _run(trials: Trials) -> None:
    trials.restarts.run(trials.connect, "the poll failed")


@pytest.mark.parametrize("begin", [_start, _run])
@given(interval=st.floats(min_value=0, max_value=1e6), count=st.integers(min_value=1, max_value=30))
def test_attempts_are_a_second_apart_at_least(
    begin: Callable[[Trials], None], interval: float, count: int
) -> None:
    trials = Trials(*[ProviderError("away")] * 50, count=count, interval=interval)
    with pytest.raises(ProviderError, match=rf"{count} restarts? of the connection failed"):
        begin(trials)
    assert trials.attempts == count + (begin is _start)
    assert trials.pauses == [max(interval, 1.0)] * (count - 1)


@rows("begin", [_start, _run])
def test_without_a_count_the_attempts_never_end_and_grow_apart(begin: Callable[[Trials], None]) -> None:
    trials = Trials(*[ProviderError("away")] * 50, count=None, interval=60.0)
    begin(trials)
    assert trials.attempts == 51
    grown = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert trials.pauses == (grown + [60.0] * 50)[: 50 - (begin is _start)]


def test_restarts_that_help_for_a_moment_only_are_apart_too() -> None:
    trials = Trials()
    for _ in range(20):
        trials.restarts.run(trials.connect, "the poll failed")
    assert trials.pauses == [1.0] * 19
    trials.restarts.note_good_work()
    trials.restarts.run(trials.connect, "the poll failed")
    assert len(trials.pauses) == 19, "after good work the first attempt comes at once"


def test_restarts_that_do_not_help_grow_apart_and_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    trials = Trials(interval=60.0)
    with caplog.at_level("INFO"):
        for _ in range(10):
            trials.restarts.run(trials.connect, "Too many open files")
            assert trials.restarts.may_help is (trials.attempts == 1)
        trials.restarts.note_good_work()
        trials.restarts.note_good_work()
    assert trials.pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [record.getMessage() for record in caplog.records] == [
        "restarting the connection",
        "connected again",
        "a new connection does not help, and nothing is claimed",
        "the connection works again",
    ]


def test_a_stop_ends_the_attempts(caplog: pytest.LogCaptureFixture) -> None:
    trials = Trials(*[ProviderError("away")] * 9, count=9)

    def connect() -> None:
        trials.stopping = trials.attempts == 2
        trials.connect()

    with caplog.at_level("INFO"):
        trials.restarts.start(connect)
    assert trials.attempts == 3
    assert "connected again" not in caplog.text


@rows("begin", [_start, _run])
def test_without_restarts_the_first_failure_counts(begin: Callable[[Trials], None]) -> None:
    trials = Trials(*[ProviderError("away")] * 2, count=0)
    with pytest.raises(ProviderError, match="RestartRetryCount is 0"):
        begin(trials)
    assert trials.attempts == (begin is _start)
