"""Calls of external sinks: tried again after a TemporaryFailure, and bounded in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from connector.businessobjects.instance import BusinessObject
from connector.errors import NotActive, TemporaryFailure, Unsubscribed
from connector.sinks.calling import guard
from connector.sinks.contract import Event
from connector.testing.sinks import sample_event, sample_object
from tests.tables import rows


class Clockwork:
    """A watch that notes what it was told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def arm(self, seconds: float, what: str) -> None:
        self.told.append((seconds, what))

    def disarm(self) -> None:
        self.told.append("disarmed")


def failing(times: int, error: Exception) -> Callable[..., str]:
    calls = []

    def deliver(bo: BusinessObject, event: Event) -> str:
        calls.append(time.monotonic())
        if len(calls) <= times:
            raise error
        return "whatever it returns means done"

    deliver.calls = calls  # type: ignore[attr-defined]
    return deliver


@rows("retries, failures, calls", [(0, 0, 1), (2, 1, 2), (2, 2, 3), (2, 9, 3), (0, 1, 1)])
def test_a_temporary_failure_is_tried_again_as_often_as_configured(
    retries: int, failures: int, calls: int
) -> None:
    sink = failing(failures, TemporaryFailure("busy"))
    deliver = guard(sink, "s", retries=retries, timer=Clockwork())
    if failures > retries:
        with pytest.raises(TemporaryFailure, match="busy"):
            deliver(sample_object(), sample_event())
    else:
        assert deliver(sample_object(), sample_event()) == "whatever it returns means done"
    assert len(sink.calls) == calls  # type: ignore[attr-defined]


def test_the_wait_between_two_tries_grows() -> None:
    sink = failing(9, TemporaryFailure())
    with pytest.raises(TemporaryFailure):
        guard(sink, "s", retries=3, timer=Clockwork())(sample_object(), sample_event())
    waits = [later - earlier for earlier, later in pairwise(sink.calls)]  # type: ignore[attr-defined]
    for wait, least in zip(waits, (0.1, 0.2, 0.4), strict=True):
        assert wait >= least


@rows("error", [Unsubscribed("x"), NotActive("x"), ValueError("x")])
def test_any_other_answer_comes_through_at_once(error: Exception) -> None:
    sink = failing(9, error)
    with pytest.raises(type(error), match="x"):
        guard(sink, "s", retries=5, timer=Clockwork())(sample_object(), sample_event())
    assert len(sink.calls) == 1  # type: ignore[attr-defined]


@rows("failures", [0, 1])
def test_each_call_has_the_whole_timeout_and_none_runs_on_after_it(failures: int) -> None:
    timer = Clockwork()
    sink = failing(failures, TemporaryFailure())
    guard(sink, "s", retries=1, timeout=2.5, timer=timer)(sample_object(), sample_event())
    assert timer.told == [(2.5, "s"), "disarmed"] * (failures + 1)


def test_without_retries_and_timeout_nothing_stands_between_caller_and_sink() -> None:
    sink = failing(0, ValueError())
    assert guard(sink, "s", timer=Clockwork()) is sink
